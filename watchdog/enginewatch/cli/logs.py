"""The daemon's own log: one line an event, on stderr."""

from __future__ import annotations

import logging
import sys


def set_up_logging(*, verbose: bool) -> None:
    """Times are in the local zone, as journald and the person reading have it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("enginewatch").setLevel(logging.DEBUG if verbose else logging.INFO)
