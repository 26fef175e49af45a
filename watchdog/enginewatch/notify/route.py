"""The routing tree: which receivers hear of an alert, grouped and timed how.

Alertmanager's semantics (`dispatch/route.go`): an alert goes down the tree, the
first child that takes it ends the search unless it says `continue`, and a node
none of whose children takes it keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from enginewatch.config import GROUP_BY_ALL, Config, ReceiverConfig, RouteConfig
from enginewatch.model import Labels, Matcher, MatchOp, Millis, matches_all
from enginewatch.notify.bylabels import ByLabels, asked

UNROUTED: Final = "none"
"""The `severity` of alerts that are for machines, as Watchdog's, which says that all works: only
routes that name them take them."""

NAMING: Final = frozenset({"alertname", "verdict", "severity"})


@dataclass(frozen=True, slots=True)
class Timing:
    """`group_wait` passes between a group's first alert and its first notification, at least
    `group_interval` between two notifications of it, `repeat_interval` between a delivery and
    its repetition while nothing changes. In ms."""

    group_wait: Millis
    group_interval: Millis
    repeat_interval: Millis


DEFAULT_GROUP_BY: Final = ("deployment", "verdict")
"""One page per deployment and hazard: nobody wants one per GPU."""

DEFAULT_TIMING: Final = Timing(
    group_wait=1_000, group_interval=30_000, repeat_interval=4 * 3600_000
)
"""What fires in one evaluation is told together; a page is not held back for what may come.

A group that was quiet for `group_interval` is told of a change after `group_wait`:
unlike Alertmanager's, its clock does not tick on while nothing happens.
"""


@dataclass(frozen=True, slots=True)
class Route:
    """A node with everything it has from above. `key` stays the same while the node and its place
    in the tree do; it names the matchers on the way to it. `group_by` None means all labels."""

    key: str
    receiver: str
    group_by: tuple[str, ...] | None
    timing: Timing
    matchers: tuple[Matcher, ...] = ()
    goes_on: bool = False
    mute_time_intervals: tuple[str, ...] = ()
    active_time_intervals: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    names: bool = False
    """Whether a matcher on the way asks what the alert is, rather than where it is from."""

    def group_labels(self, labels: Labels) -> Labels:
        return labels if self.group_by is None else labels.only(self.group_by)

    def group_key(self, labels: Labels) -> str:
        return f"{self.key}:{self.group_labels(labels)!r}"

    def walk(self) -> Iterator[Route]:
        """This node and all below it."""
        yield self
        for child in self.routes:
            yield from child.walk()

    def match(self, labels: Labels) -> tuple[Route, ...]:
        """The nodes that take an alert of these labels, each to be told to its receiver."""
        found = self._match(labels)
        if for_machines(labels):
            return tuple(route for route in found if route.names)
        return found

    def _match(self, labels: Labels) -> tuple[Route, ...]:
        if not matches_all(labels, self.matchers):
            return ()
        found: list[Route] = []
        for child in self.routes:
            taken = child._match(labels)
            found += taken
            if taken and not child.goes_on:
                break
        return tuple(found) or (self,)


def for_machines(labels: Labels) -> bool:
    """Whether an alert is no news to people."""
    return labels.get("severity") == UNROUTED


class Routing:
    """A tree that remembers its answers."""

    def __init__(self, tree: Route):
        routes = tuple(tree.walk())
        matchers = chain.from_iterable(route.matchers for route in routes)
        self.match: Final = ByLabels({*asked(matchers), "severity"}, tree.match)
        self._keys: Final[dict[str, Callable[[Labels], str]]] = {
            route.key: route.group_key
            if route.group_by is None
            else ByLabels(route.group_by, route.group_key)
            for route in routes
        }

    def group_key(self, route: Route, labels: Labels) -> str:
        """`Route.group_key` of one of its routes."""
        return self._keys[route.key](labels)


def route_tree(config: Config) -> Route:
    """The tree of a configuration; without `route` every receiver hears of every alert."""
    root = config.route
    if root is None:
        return _to_all(config.receivers)
    base = Route("", root.receiver or "", DEFAULT_GROUP_BY, DEFAULT_TIMING)
    return _compiled(root, base, "{}")


def _to_all(receivers: Sequence[ReceiverConfig]) -> Route:
    """A root that reaches nobody, and below it one route a receiver."""
    root = Route("{}", "", DEFAULT_GROUP_BY, DEFAULT_TIMING)
    children = tuple(
        replace(root, key=f"{{}}/{receiver.name}", receiver=receiver.name, goes_on=True)
        for receiver in receivers
    )
    return replace(root, routes=children)


def _compiled(config: RouteConfig, above: Route, key: str) -> Route:
    timing = Timing(
        _given(config.group_wait, above.timing.group_wait),
        _given(config.group_interval, above.timing.group_interval),
        _given(config.repeat_interval, above.timing.repeat_interval),
    )
    route = Route(
        key=key,
        receiver=config.receiver or above.receiver,
        group_by=_grouping(config.group_by, above.group_by),
        timing=timing,
        matchers=config.matchers,
        goes_on=config.continue_,
        mute_time_intervals=config.mute_time_intervals,
        active_time_intervals=config.active_time_intervals,
        names=above.names or any(_names(matcher) for matcher in config.matchers),
    )
    children: list[Route] = []
    seen: dict[str, int] = {}
    for child in config.routes:
        step = "{" + ",".join(str(matcher) for matcher in child.matchers) + "}"
        # Two children of the same matchers are told apart by their order, and by nothing else:
        # a number on all of them would change keys when an unrelated route is put in.
        seen[step] = count = seen.get(step, 0) + 1
        again = f"#{count}" if count > 1 else ""
        children.append(_compiled(child, route, f"{key}/{step}{again}"))
    return replace(route, routes=tuple(children))


def _given(value: Millis | None, otherwise: Millis) -> Millis:
    return otherwise if value is None else value


def _grouping(
    given: tuple[str, ...] | None, above: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    if given is None:
        return above
    return None if given == (GROUP_BY_ALL,) else tuple(sorted(given))


def _names(matcher: Matcher) -> bool:
    return matcher.name in NAMING and matcher.op in (MatchOp.EQUAL, MatchOp.REGEX)


def integrations(config: Config) -> Mapping[str, tuple[str, ...]]:
    """The names of each receiver's ways of telling: `on-call` has `on-call/slack[0]`, say."""
    return {receiver.name: tuple(_integrations(receiver)) for receiver in config.receivers}


def _integrations(receiver: ReceiverConfig) -> Iterator[str]:
    for field in type(receiver).model_fields:
        kind, found, _ = field.partition("_configs")
        if found:
            count = len(getattr(receiver, field))
            yield from (f"{receiver.name}/{kind}[{number}]" for number in range(count))


def resends(config: Config) -> Mapping[str, Millis]:
    """The ways of telling that take what they hear no more of for resolved, and after how long
    each is told again of what fires."""
    return {
        f"{receiver.name}/alertmanager[{number}]": each.resend_delay
        for receiver in config.receivers
        for number, each in enumerate(receiver.alertmanager_configs)
    }
