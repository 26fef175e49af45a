"""Random PromQL over the series of `fleet`, for comparison with a real Prometheus.

Expressions are well typed and mostly sensible: a generator of nonsense would
spend its time comparing empty answers. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.promql.fleet import COUNTERS, GAUGES, HISTOGRAMS, LABELS

RANGES = ("30s", "1m", "2m", "90s", "5m", "17m", "1h")
QUANTILES = ("0", "0.1", "0.5", "0.9", "0.99", "1", "-0.5", "1.5")
NUMBERS = ("0", "1", "2", "0.5", "-3", "10", "1e3", "0.001", "Inf", "-Inf", "NaN", "time()", "pi()")
ARITHMETIC = ("+", "-", "*", "/", "^")
"""Without atan2, of which Prometheus 2 keeps the metric name, and without `%` (see `_exact`)."""

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
OVER_TIME = (
    *("avg_over_time", "min_over_time", "max_over_time", "sum_over_time", "count_over_time"),
    *("stddev_over_time", "stdvar_over_time", "last_over_time", "present_over_time"),
    *("deriv", "delta", "idelta"),
)
RATES = ("rate", "rate", "rate", "increase", "irate")
ELEMENTWISE = (
    *("abs", "ceil", "floor", "round", "sgn", "sqrt", "exp", "ln", "log2", "log10"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg", "rad"),
    *("timestamp", "sort", "sort_desc"),
)
DATES = (
    *("minute", "hour", "day_of_week", "day_of_month", "day_of_year", "days_in_month"),
    *("month", "year"),
)
REDUCTIONS = ("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar")
SELECTIVE = ("instance", "instance", "job", "job", "model", "rank", "version")


class Generator:
    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def expression(self) -> str:
        return self._scalar(1) if self._one_in(40) else self._vector(self._random.randint(1, 4))

    def _one_in(self, n: int) -> bool:
        return self._random.randrange(n) == 0

    def _pick(self, options: Sequence[str]) -> str:
        return self._random.choice(options)

    def _some(self, options: Sequence[str], most: int = 3) -> str:
        return ", ".join(self._random.sample(options, self._random.randint(0, most)))

    def _matchers(self) -> str:
        if self._one_in(2):
            return ""
        label = self._pick(SELECTIVE)
        values = LABELS[label]
        value = self._pick(values)
        options = (
            f'{label}="{value}"',
            f'{label}!="{value}"',
            f'{label}=~"{value}|{self._pick(values)}"',
            f'{label}=~".*{value[-1:]}"',
            f'{label}!~"{value[:2]}.*"',
            f'{label}=""',
        )
        return "{" + ", ".join(self._random.sample(options, self._random.randint(1, 2))) + "}"

    def _modifiers(self) -> str:
        text = ""
        if self._one_in(8):
            text += " offset " + self._pick(("1m", "5m", "-1m", "90s", "1h"))
        if self._one_in(16):
            text += " @ " + self._pick(("start()", "end()", "1700003600", "1700001234.5"))
        return text

    def _name(self) -> str:
        return self._pick(GAUGES + COUNTERS) if not self._one_in(30) else "no_such_metric"

    def _selector(self) -> str:
        if self._one_in(25):
            return '{__name__=~"engine_(running|waiting)_requests"}' + self._modifiers()
        return self._name() + self._matchers() + self._modifiers()

    def _matrix(self, names: tuple[str, ...], depth: int) -> str:
        if depth > 1 and self._one_in(8):
            step = self._pick(("", "15s", "1m", "37s"))
            span = self._pick(("2m", "5m", "10m"))
            inner = self._selector() if depth == 2 else self._vector(depth - 1)
            return f"({inner})[{span}:{step}]{self._modifiers()}"
        return f"{self._pick(names)}{self._matchers()}[{self._pick(RANGES)}]{self._modifiers()}"

    def _scalar(self, depth: int) -> str:
        if depth <= 0 or not self._one_in(4):
            return self._pick(NUMBERS)
        if self._one_in(2):
            return f"scalar({self._vector(depth - 1)})"
        return f"({self._scalar(depth - 1)} {self._pick(ARITHMETIC)} {self._scalar(depth - 1)})"

    def _vector(self, depth: int) -> str:
        if depth <= 0:
            return self._selector()
        makers: list[tuple[int, Callable[[int], str]]] = [
            (2, lambda _: self._selector()),
            (5, self._of_range),
            (5, self._aggregate),
            (5, self._between_vectors),
            (4, self._with_scalar),
            (2, self._set_operation),
            (3, self._elementwise),
            (3, self._histogram),
            (2, self._labels),
            (1, self._absent),
            (1, self._exact),
            (1, self._made),
        ]
        weights = [weight for weight, _ in makers]
        (make,) = self._random.choices([make for _, make in makers], weights)
        return make(depth)

    def _of_range(self, depth: int) -> str:
        if self._one_in(2):
            # A difference in the last digit may be a fall, and that a counter's restart.
            return f"{self._pick(RATES)}({self._matrix(COUNTERS, min(depth, 2))})"
        if self._one_in(6):
            return f"quantile_over_time({self._pick(QUANTILES)}, {self._matrix(GAUGES, depth)})"
        if self._one_in(6):
            ahead = self._pick(("60", "-600", "3600"))
            return f"predict_linear({self._matrix(GAUGES, depth)}, {ahead})"
        if self._one_in(12):
            return f"absent_over_time({self._matrix(GAUGES, depth)})"
        return f"{self._pick(OVER_TIME)}({self._matrix(GAUGES + COUNTERS, depth)})"

    def _grouping(self) -> str:
        if self._one_in(5):
            return ""
        return f" {self._pick(('by', 'without'))} ({self._some(list(LABELS))})"

    def _aggregate(self, depth: int) -> str:
        inner = self._vector(depth - 1)
        if self._one_in(6):
            kind = self._pick(("topk", "bottomk"))
            return f"{kind}{self._grouping()} ({self._pick(('1', '2', '3', '0'))}, {inner})"
        if self._one_in(8):
            return f"quantile{self._grouping()} ({self._pick(QUANTILES)}, {inner})"
        return f"{self._pick(REDUCTIONS)}{self._grouping()} ({inner})"

    def _between_vectors(self, depth: int) -> str:
        compares = self._one_in(3)
        op = self._pick(COMPARISONS) if compares else self._pick(ARITHMETIC)
        if compares and self._one_in(3):
            op += " bool"
        left, right = self._vector(depth - 1), self._vector(depth - 1)
        if self._one_in(3):
            right = f"{self._pick(REDUCTIONS)} by (instance, job) ({right})"
            return f"({left}) {op} on (instance, job) group_left ({self._one_label()}) ({right})"
        if self._one_in(4):
            left = f"{self._pick(REDUCTIONS)} by (instance) ({left})"
            return f"({left}) {op} on (instance) group_right ({self._one_label()}) ({right})"
        if self._one_in(3):
            op += f" {self._pick(('on', 'ignoring'))} ({self._some(list(LABELS))})"
        return f"({left}) {op} ({right})"

    def _one_label(self) -> str:
        return "" if self._one_in(2) else self._pick(("version", "model", "absent_label"))

    def _with_scalar(self, depth: int) -> str:
        vector, scalar = f"({self._vector(depth - 1)})", self._scalar(depth - 1)
        if self._one_in(2):
            op = self._pick(ARITHMETIC)
        else:
            op = self._pick(COMPARISONS) + (" bool" if self._one_in(3) else "")
        sides = (vector, scalar) if not self._one_in(3) else (scalar, vector)
        return f"{sides[0]} {op} {sides[1]}"

    def _set_operation(self, depth: int) -> str:
        op = self._pick(("and", "or", "unless"))
        if self._one_in(2):
            op += f" {self._pick(('on', 'ignoring'))} ({self._some(list(LABELS))})"
        return f"({self._vector(depth - 1)}) {op} ({self._vector(depth - 1)})"

    def _elementwise(self, depth: int) -> str:
        inner = self._vector(depth - 1)
        kind = self._random.randrange(6)
        if kind == 0:
            return f"clamp({inner}, {self._scalar(0)}, {self._scalar(0)})"
        if kind == 1:
            return f"{self._pick(('clamp_min', 'clamp_max', 'round'))}({inner}, {self._scalar(0)})"
        if kind == 2:
            return f"{self._pick(('-', '+'))}({inner})"
        if kind == 3 and self._one_in(2):
            return f"{self._pick(DATES)}(engine_start_time_seconds)"
        return f"{self._pick(ELEMENTWISE)}({inner})"

    def _histogram(self, depth: int) -> str:
        buckets = f"{self._pick(HISTOGRAMS)}_bucket{self._matchers()}"
        rated = self._pick((f"{buckets}", f"rate({buckets}[{self._pick(RANGES)}])"))
        labels = self._pick(("le", "instance, le"))
        grouped = (f"sum by ({labels}) ({rated})", f"max without (version) ({rated})")
        operand = rated if self._one_in(3) else self._pick(grouped)
        return f"histogram_quantile({self._pick(QUANTILES)}, {operand})"

    def _labels(self, depth: int) -> str:
        inner, target = self._vector(depth - 1), self._pick((*LABELS, "fresh", "__name__"))
        source = self._pick((*LABELS, "__name__", "absent_label"))
        if self._one_in(3):
            return f'label_join({inner}, "{target}", "-", "{source}", "{self._pick(list(LABELS))}")'
        pattern = self._pick(("(.*)", "(.).*", ".*-(.+)", "(a|engine)(.*)", "", "x"))
        template = self._pick(("$1", "${2}x", "$1_$2", "", "fixed", "$$1", "$name"))
        return f'label_replace({inner}, "{target}", "{template}", "{source}", "{pattern}")'

    def _exact(self, _: int) -> str:
        """What turns a difference in the last digit into a large one, of samples as they are."""
        kind = self._random.randrange(4)
        if kind == 0:
            return f"{self._pick(('changes', 'resets'))}({self._matrix(GAUGES + COUNTERS, 0)})"
        if kind == 1:
            return f"{self._pick(('sin', 'cos', 'tan'))}(clamp({self._selector()}, -9, 9))"
        if kind == 2:
            return f"{self._selector()} % {self._pick(NUMBERS)}"
        return f'count_values{self._grouping()} ("val", {self._selector()})'

    def _absent(self, depth: int) -> str:
        return f"absent({self._vector(depth - 1)})"

    def _made(self, depth: int) -> str:
        if self._one_in(3):
            return f"{self._pick(DATES)}()"
        return f"vector({self._scalar(depth)})"
