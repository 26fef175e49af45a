"""The report as one JSON object: findings are verdict objects (DESIGN.md 4)."""

from __future__ import annotations

import json

from enginewatch.preflight.outcome import Report


def render(report: Report) -> str:
    return json.dumps(report.to_json(), indent=2, allow_nan=False)
