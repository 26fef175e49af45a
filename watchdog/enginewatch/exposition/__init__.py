"""What a metrics page says: Prometheus text 0.0.4 and OpenMetrics 1.0, strictly and fast.

`parse_page` reads one page. `PageReader` reads the pages of one target and
remembers their layout, so that a page seen before costs little more than its
numbers; both give the same answer.
"""

from enginewatch.exposition.errors import PageError
from enginewatch.exposition.layout import PageLayout
from enginewatch.exposition.limits import NO_LIMITS, Limits
from enginewatch.exposition.negotiate import ACCEPT
from enginewatch.exposition.page import Page, Reading, parse_page
from enginewatch.exposition.reader import PageCache, PageReader

__all__ = [
    "ACCEPT",
    "NO_LIMITS",
    "Limits",
    "Page",
    "PageCache",
    "PageError",
    "PageLayout",
    "PageReader",
    "Reading",
    "parse_page",
]
