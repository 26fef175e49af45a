"""What the evaluator keeps between evaluations: enough to work on arrays alone, and no more."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from enginewatch.model import Labels, Matcher, Millis
from enginewatch.promql.evaluator import Evaluator
from enginewatch.promql.layouts import Nameless, grouping, without_name
from enginewatch.promql.parser import parse_expr
from enginewatch.promql.values import Vector
from enginewatch.store.base import MAX_DERIVED, Instant, Layout, Window


class Columns:
    """A storage of one layout for each metric name, whose values and presence a test sets."""

    def __init__(self) -> None:
        self.layouts: dict[str, Layout] = {}
        self.values: dict[str, list[float | None]] = {}

    def put(self, name: str, *labels: dict[str, str]) -> Layout:
        layout = self.layouts[name] = Layout([Labels(each, __name__=name) for each in labels])
        self.values[name] = [1.0] * len(labels)
        return layout

    def instant(self, matchers: Any, at: Millis, lookback: Millis) -> Instant:
        name = matchers[0].value
        values = [7e77 if v is None else v for v in self.values[name]]
        present = np.array([v is not None for v in self.values[name]])
        times = np.zeros(len(values), dtype=np.int64)
        return Instant(self.layouts[name], np.array(values), times, present)

    def window(self, matchers: Any, after: Millis, upto: Millis) -> Window:
        layout = self.layouts[matchers[0].value]
        times = np.tile(np.linspace(after + 1, upto, 5, dtype=np.int64), (len(layout), 1))
        counts = np.full(len(layout), 5)
        return Window(layout, np.cumsum(np.ones((len(layout), 5)), axis=1), times, counts)

    def series(self, matchers: Any, after: Any = None, upto: Any = None) -> list[Labels]:
        raise NotImplementedError

    def metadata(self) -> dict[str, Any]:
        raise NotImplementedError


ENGINES = [{"instance": name, "job": "vllm", "rank": "0"} for name in "abc"]


@pytest.fixture
def columns() -> Columns:
    columns = Columns()
    columns.put("x_total", *ENGINES)
    columns.put("y", *ENGINES)
    columns.put("info", *({"instance": name, "version": "1"} for name in "abc"))
    columns.put("z_bucket", *({**engine, "le": le} for engine in ENGINES for le in ("1", "+Inf")))
    return columns


def evaluate(columns: Columns, text: str) -> Vector:
    value = Evaluator(columns).instant(parse_expr(text), 1_000_000)
    assert isinstance(value, Vector)
    return value


@pytest.mark.parametrize(
    "text",
    [
        "y",
        "y > 0",
        "-y",
        "rate(x_total[5m])",
        "sum by (job) (rate(x_total[5m]))",
        "sum without (rank) (x_total) / sum without (rank) (y)",
        "y * on (instance) group_left (version) info",
        "y - ignoring (rank) y",
        "y and on (instance) info",
        "y or info",
        "sum(y) or sum(info)",
        'label_replace(y, "a", "$1", "instance", "(.*)")',
        'label_join(rate(x_total[5m]), "a", "-", "job", "rank")',
        "histogram_quantile(0.9, sum by (instance, le) (rate(z_bucket[5m])))",
        "topk(1, y)",
        "absent(y > 5)",
        "max_over_time((y + on (instance) group_left (version) info)[5m:1m])",
    ],
)
def test_no_labels_are_made_again_while_the_series_are_the_same(
    columns: Columns, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = evaluate(columns, text)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("labels were made")

    monkeypatch.setattr(Labels, "__init__", refuse)
    after = evaluate(columns, text)
    assert after.layout is before.layout
    assert after.values.tolist() == before.values.tolist()


def test_partners_that_come_and_go_keep_the_result_layout(columns: Columns) -> None:
    text = "y * on (instance) group_left (version) info"
    layout = evaluate(columns, text).layout
    columns.values["info"] = [1.0, None, 2.0]
    fewer = evaluate(columns, text)
    assert fewer.layout is layout
    assert [labels["instance"] for labels, _ in fewer.samples()] == ["a", "c"]
    columns.values["info"] = [1.0, 1.0, 2.0]
    assert evaluate(columns, text).layout is layout


def test_a_partner_with_other_labels_makes_another_result(columns: Columns) -> None:
    info = ({"instance": "a", "version": version} for version in ("1", "2"))
    columns.put("info", *info)
    columns.put("y", {"instance": "a"})
    text = "y * on (instance) group_left (version) info"
    for values, version in (([1.0, None], "1"), ([None, 1.0], "2"), ([1.0, None], "1")):
        columns.values["info"] = list(values)
        ((labels, _),) = evaluate(columns, text).samples()
        assert labels == Labels(instance="a", version=version)


@pytest.mark.parametrize(
    "text",
    [
        "y * on (instance) group_left (version) info",
        "info * on (instance) group_right (version) y",
        "y > on (instance) group_left (version) info",
        "y and on (instance) info",
        "info unless on (instance) y",
        "y or info",
        "info or y",
        "sum by (instance) (y) + sum by (instance) (info)",
        "max_over_time((y or info)[5m:1m])",
        "-y + on (instance) group_left () -info",
    ],
)
def test_a_layout_that_was_replaced_is_forgotten(columns: Columns, text: str) -> None:
    """One side stays for days while the other is replaced whenever its series change."""
    kept = columns.layouts["y"]
    replaced = []
    for generation in range(20):
        name = "info"
        rows = [{"instance": i, "version": str(generation)} for i in "abc"]
        replaced.append(weakref.ref(columns.put(name, *rows)))
        evaluate(columns, text)
    del rows
    gc.collect()
    assert sum(layout() is not None for layout in replaced) == 1
    assert len(kept._derived) < 10


def test_what_queries_pile_up_on_a_layout_is_bounded(columns: Columns) -> None:
    for number in range(3 * MAX_DERIVED):
        evaluate(columns, f'label_replace(y, "a", "{number}", "", "")')
    assert len(columns.layouts["y"]._derived) <= MAX_DERIVED


def test_names_are_dropped_without_making_labels() -> None:
    layout = Layout([Labels(__name__="x", a=str(n)) for n in range(3)])
    nameless = without_name(layout).layout
    assert isinstance(nameless, Nameless)
    assert len(nameless) == 3
    groups = grouping(nameless, ("a", "__name__"), without=False)
    assert groups.layout.labels == tuple(Labels(a=str(n)) for n in range(3))
    assert nameless._made is None
    assert nameless.labels == groups.layout.labels
    assert without_name(nameless).layout is nameless


def test_labels_without_a_name_keep_their_layout() -> None:
    layout = Layout([Labels(a="1"), Labels()])
    assert without_name(layout).layout is layout


def test_an_absent_series_is_the_same_each_time(columns: Columns) -> None:
    columns.values["y"] = [None, None, None]
    text = 'absent(y{job="vllm"})'
    assert evaluate(columns, text).layout is evaluate(columns, text).layout
    assert isinstance(parse_expr(text).args[0].matchers[0], Matcher)  # type: ignore[attr-defined]
