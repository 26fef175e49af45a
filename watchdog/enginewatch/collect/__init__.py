"""The edge where targets are found and scraped: all I/O of the collecting side is here.

`Discovery` tells which targets there are, `ScrapePool` scrapes them, `Ingest`
writes what a scrape brought, live or from a recording.
"""

from enginewatch.collect.discovery import Discovery, Found
from enginewatch.collect.ingest import Ingest, Outcome
from enginewatch.collect.loop import Health, Observer, TargetState
from enginewatch.collect.pool import ScrapePool
from enginewatch.collect.target import ScrapeTarget, make_target

__all__ = [
    "Discovery",
    "Found",
    "Health",
    "Ingest",
    "Observer",
    "Outcome",
    "ScrapePool",
    "ScrapeTarget",
    "TargetState",
    "make_target",
]
