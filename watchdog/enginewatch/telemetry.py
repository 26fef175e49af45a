"""What the daemon says of itself: for `/metrics`, and for the store, where rules judge it too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from enginewatch import __version__
from enginewatch.alerting.events import GroupStatus
from enginewatch.collect.ingest import SCRAPE_ERROR
from enginewatch.collect.loop import Health, TargetState
from enginewatch.collect.plugins import PLUGINS
from enginewatch.keeper import Keeper
from enginewatch.model import METRIC_NAME, Labels, Millis, Sample
from enginewatch.notify.heartbeat import Heartbeat
from enginewatch.notify.notifier import Notifier
from enginewatch.revive import failures
from enginewatch.statefile import Fault
from enginewatch.store.head import HeadStats

_TARGET: Final = ("instance", "job", "deployment")


class Watched(Protocol):
    """The parts of the daemon that telemetry reads, each as it is now."""

    def targets(self) -> Iterable[TargetState]: ...
    def groups(self) -> Iterable[GroupStatus]: ...
    def store(self) -> HeadStats: ...
    def notifier(self) -> Notifier: ...
    def keeper(self) -> Keeper: ...
    def heartbeat(self) -> Heartbeat | None: ...


class Telemetry(Collector):
    """A collector for prometheus_client, and the same values as samples."""

    def __init__(self, watched: Watched, instance: Callable[[], str]):
        self._watched: Final = watched
        self._instance: Final = instance
        self.rule_failures: Final[Counter[str]] = Counter()
        self.reloaded_at: Millis = 0
        self.reload_succeeded = True
        self.evaluated_at: Millis = 0
        self.registry: Final = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def samples(self) -> Iterator[Sample]:
        """All values under `job="enginewatch"`; a target's own labels win, as with honor_labels."""
        own = {"job": "enginewatch", "instance": self._instance()}
        for family in self.registry.collect():
            if family.name == SCRAPE_ERROR:
                continue  # written with the scrape itself
            for one in family.samples:
                yield Sample(Labels({**own, **one.labels, METRIC_NAME: one.name}), one.value)

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("enginewatch_build", "The version.", {"version": __version__})
        yield from self._configuration()
        yield from self._scrapes()
        yield from self._rules()
        yield from self._collectors()
        yield from self._store()
        yield from self._notifications()
        yield from self._state()

    def _configuration(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "enginewatch_config_last_reload_successful",
            "Whether the last attempt to load the configuration succeeded.",
            float(self.reload_succeeded),
        )
        yield GaugeMetricFamily(
            "enginewatch_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was loaded, in Unix time.",
            self.reloaded_at / 1000,
        )

    def _scrapes(self) -> Iterator[Metric]:
        states = list(self._watched.targets())
        health = Counter(state.health for state in states)
        targets = GaugeMetricFamily(
            "enginewatch_targets", "Configured targets by health.", labels=["health"]
        )
        for each in Health:
            targets.add_metric([each.value], health[each])
        skipped = CounterMetricFamily(
            "enginewatch_scrapes_skipped",
            "Scrapes left out because the target's one before had not ended.",
            labels=_TARGET,
        )
        failing = GaugeMetricFamily(
            SCRAPE_ERROR, "1 while the last scrape failed.", labels=[*_TARGET, "reason"]
        )
        for state in states:
            labels = [state.target.target.labels.get(name, "") for name in _TARGET]
            skipped.add_metric(labels, state.skipped)
            if state.last_error:
                failing.add_metric([*labels, state.reason], 1)
        yield from (targets, skipped, failing)

    def _rules(self) -> Iterator[Metric]:
        duration = GaugeMetricFamily(
            "enginewatch_rule_group_last_duration_seconds",
            "What the last evaluation of a rule group took.",
            labels=["rule_group"],
        )
        interval = GaugeMetricFamily(
            "enginewatch_rule_group_interval_seconds",
            "How often a rule group is due.",
            labels=["rule_group"],
        )
        missed = CounterMetricFamily(
            "enginewatch_rule_group_iterations_missed",
            "Evaluations of a rule group that came too late to be made.",
            labels=["rule_group"],
        )
        failed = CounterMetricFamily(
            "enginewatch_rule_evaluation_failures",
            "Evaluations of single rules that failed.",
            labels=["rule_group"],
        )
        for status in self._watched.groups():
            name = [status.group.name]
            duration.add_metric(name, status.seconds)
            interval.add_metric(name, status.interval / 1000)
            missed.add_metric(name, status.missed)
            failed.add_metric(name, self.rule_failures[status.group.name])
        yield from (duration, interval, missed, failed)
        yield GaugeMetricFamily(
            "enginewatch_last_evaluation_timestamp_seconds",
            "When the rules were last evaluated, in Unix time.",
            self.evaluated_at / 1000,
        )

    def _collectors(self) -> Iterator[Metric]:
        failed = CounterMetricFamily(
            "enginewatch_collector_failures",
            "Failures of a collector's own work; it begins again after each.",
            labels=["collector"],
        )
        # Each from the start, at 0: an increase from nothing is none.
        for plugin in PLUGINS:
            failed.add_metric([plugin.name], failures[plugin.name])
        yield failed

    def _store(self) -> Iterator[Metric]:
        stats = self._watched.store()
        yield GaugeMetricFamily("enginewatch_store_series", "Series in memory.", stats.series)
        yield GaugeMetricFamily(
            "enginewatch_store_bytes", "Memory of samples, labels not counted.", stats.bytes
        )
        yield CounterMetricFamily(
            "enginewatch_store_samples_appended", "Samples stored.", stats.appended
        )
        refused = CounterMetricFamily(
            "enginewatch_store_samples_refused", "Samples not stored.", labels=["reason"]
        )
        for reason, count in stats.refused.items():
            refused.add_metric([reason.value], count)
        yield refused

    def _notifications(self) -> Iterator[Metric]:
        names = ["receiver"]
        delivered = CounterMetricFamily(
            "enginewatch_notifications_delivered", "Notifications taken.", labels=names
        )
        failed = CounterMetricFamily(
            "enginewatch_notifications_failed",
            "Notifications refused for good, or given up, by what was wrong.",
            labels=[*names, "reason"],
        )
        attempts = CounterMetricFamily(
            "enginewatch_notification_attempts_failed",
            "Attempts that failed, most of them to be made again, by what was wrong.",
            labels=[*names, "reason"],
        )
        pending = GaugeMetricFamily(
            "enginewatch_notifications_pending",
            "Groups of which the receiver has not been told all.",
            labels=names,
        )
        owed = GaugeMetricFamily(
            "enginewatch_notifications_oldest_pending_seconds",
            "For how long the oldest of what was tried to tell has not been taken; 0: nothing.",
            labels=names,
        )
        last = GaugeMetricFamily(
            "enginewatch_notifications_last_delivery_timestamp_seconds",
            "When the receiver last took a notification, in Unix time; 0: not yet.",
            labels=names,
        )
        for receiver, standing in self._watched.notifier().tally.standings.items():
            delivered.add_metric([receiver], standing.delivered)
            pending.add_metric([receiver], standing.pending)
            owed.add_metric([receiver], standing.owed_for / 1000)
            last.add_metric([receiver], standing.delivered_at / 1000)
            for reason, count in standing.failed.items():
                failed.add_metric([receiver, reason.value], count)
            for reason, count in standing.attempts_failed.items():
                attempts.add_metric([receiver, reason.value], count)
        yield from (delivered, failed, attempts, pending, owed, last)
        step = self._watched.notifier().step
        yield GaugeMetricFamily(
            "enginewatch_clock_last_step_timestamp_seconds",
            "When the wall clock was last set while the daemon ran, in its new time; 0: never.",
            step.at / 1000,
        )
        yield GaugeMetricFamily(
            "enginewatch_clock_last_step_seconds",
            "By how much the wall clock was last set while the daemon ran.",
            step.span / 1000,
        )

    def _state(self) -> Iterator[Metric]:
        keeper = self._watched.keeper()
        failures = CounterMetricFamily(
            "enginewatch_state_write_failures",
            "Transactions of the state file that failed, by what was wrong.",
            labels=["reason"],
        )
        for fault in Fault:
            failures.add_metric([fault.value], keeper.failures[fault])
        yield failures
        yield GaugeMetricFamily(
            "enginewatch_state_writable",
            "Whether what is told now would be known after a restart.",
            float(keeper.fault is None),
        )
        yield GaugeMetricFamily(
            "enginewatch_state_lost_timestamp_seconds",
            "When the daemon began without a state that it could not read, in Unix time; 0: never.",
            keeper.lost_at / 1000,
        )
        beat = self._watched.heartbeat()
        if beat is not None:
            yield GaugeMetricFamily(
                "enginewatch_heartbeat_last_success_timestamp_seconds",
                "When the heartbeat was last heard, in Unix time; 0: not yet.",
                beat.beaten_at / 1000,
            )
            yield CounterMetricFamily(
                "enginewatch_heartbeat_failures", "Heartbeats not heard.", beat.failures
            )
