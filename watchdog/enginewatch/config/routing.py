"""Which receiver hears of which alert, and when not, in Alertmanager's vocabulary.

https://prometheus.io/docs/alerting/latest/configuration/#route
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from enginewatch.config.matchers import parse_matchers
from enginewatch.config.section import Duration, PositiveDuration, Section, fault
from enginewatch.config.timeintervals import TimeInterval
from enginewatch.model import Matcher

GROUP_BY_ALL: Final = "..."
"""The entry of `group_by` that gives every alert a group of its own."""

_MATCH: Final = 'use matchers: [name="value", other=~"a|b"]'


def _matcher_list(value: Any) -> Any:
    """Matchers written as a list of texts, or as one text, each of which may hold several."""
    texts = value if isinstance(value, list | tuple) else [value]
    found: list[Matcher] = []
    for index, text in enumerate(texts):
        if isinstance(text, Matcher):
            found.append(text)
            continue
        at = (index,) if isinstance(value, list) else ()
        if not isinstance(text, str):
            raise fault("a matcher is a text", 'like severity="page"', at)
        try:
            found += parse_matchers(text)
        except ValueError as wrong:
            raise fault(str(wrong), at=at) from None
    return tuple(found)


Matchers = Annotated[tuple[Matcher, ...], BeforeValidator(_matcher_list)]


class RouteConfig(Section):
    """A node of the tree. What is not given is as in the node above, but for the time intervals."""

    receiver: str | None = None
    group_by: tuple[str, ...] | None = None
    continue_: bool = Field(False, alias="continue")
    matchers: Matchers = ()
    group_wait: Duration | None = None
    group_interval: PositiveDuration | None = None
    repeat_interval: PositiveDuration | None = None
    mute_time_intervals: tuple[str, ...] = ()
    active_time_intervals: tuple[str, ...] = ()
    routes: tuple[RouteConfig, ...] = ()

    elsewhere: ClassVar = {"match": _MATCH, "match_re": _MATCH}

    @model_validator(mode="after")
    def _grouped_once(self) -> Self:
        labels = self.group_by or ()
        for index, label in enumerate(labels):
            if label in labels[:index]:
                raise fault(f"{label!r} is given twice", at=("group_by", index))
            if not label:
                raise fault("a label's name can't be empty", at=("group_by", index))
        if GROUP_BY_ALL in labels and len(labels) > 1:
            raise fault(
                f"{GROUP_BY_ALL!r} stands for all labels", "name no others beside it", ("group_by",)
            )
        return self


class InhibitRuleConfig(Section):
    """While an alert of the source fires, those of the target with equal labels are not told of."""

    source_matchers: Matchers = ()
    target_matchers: Matchers = ()
    equal: tuple[str, ...] = ()

    elsewhere: ClassVar = {
        **dict.fromkeys(("source_match", "source_match_re"), "use source_matchers"),
        **dict.fromkeys(("target_match", "target_match_re"), "use target_matchers"),
    }

    @model_validator(mode="after")
    def _both_sides(self) -> Self:
        for side in ("source_matchers", "target_matchers"):
            if not getattr(self, side):
                raise fault(f"{side} is missing", "without it any alert would match")
        return self


def check_routes(
    route: RouteConfig | None, receivers: Collection[str], intervals: Sequence[TimeInterval]
) -> None:
    """Raise a fault for a root that is none, and for names that nothing has."""
    if route is None:
        return
    if route.receiver is None:
        raise fault(
            "is missing", "the receiver of what no other route takes", ("route", "receiver")
        )
    for key in ("matchers", "continue_", "mute_time_intervals", "active_time_intervals"):
        if getattr(route, key):
            place = ("route", key.rstrip("_"))
            raise fault("can't be given at the root: it takes whatever is left", at=place)
    names = {interval.name for interval in intervals}
    for at, node in _nodes(route, ("route",)):
        if node.receiver is not None and node.receiver not in receivers:
            hint = f"known: {', '.join(sorted(receivers)) or 'none'}"
            raise fault(f"no receiver is called {node.receiver!r}", hint, (*at, "receiver"))
        for key in ("mute_time_intervals", "active_time_intervals"):
            for index, name in enumerate(getattr(node, key)):
                if name not in names:
                    hint = f"known: {', '.join(sorted(names)) or 'none'}"
                    raise fault(f"no time interval is called {name!r}", hint, (*at, key, index))


def _nodes(
    route: RouteConfig, at: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], RouteConfig]]:
    yield at, route
    for index, child in enumerate(route.routes):
        yield from _nodes(child, (*at, "routes", index))
