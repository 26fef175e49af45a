"""Which tables `make bench` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.__main__ import tables


def test_all_of_them_unless_some_are_named() -> None:
    files = Path(__file__).parents[1].joinpath("bench").glob("bench_*.py")
    assert tables([]) == sorted(path.stem.removeprefix("bench_") for path in files)
    assert tables(["store", "parse"]) == ["store", "parse"]


def test_a_table_that_is_none_is_told_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        tables(["parser"])
    assert "no table is called 'parser'; there are canary, fleet," in capsys.readouterr().err
