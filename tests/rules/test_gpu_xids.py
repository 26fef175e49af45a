"""The Xids that page are those that the table says, and every kind of them is told of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from enginewatch.evidence.tables import load_table

if TYPE_CHECKING:
    from conftest import Pack


def test_gpu_xid_pages_on_hardware_and_driver_codes_of_the_table(pack: Pack) -> None:
    rows = load_table(pack.root / "compat" / "xids.yml").rows
    wanted = {
        code for code, row in rows.items() if row["page"] and row["class"] in ("hardware", "driver")
    }
    (rule,) = (rule for rule in pack.alerts if rule.name == "GpuXid")
    named = re.search(r'xid=~"([0-9|]+)"', Path(rule.file).read_text(encoding="utf-8"))
    assert named
    assert set(named[1].split("|")) == wanted
