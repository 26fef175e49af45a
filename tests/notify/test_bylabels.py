"""What is remembered by labels is what would be worked out."""

from __future__ import annotations

import pytest

from enginewatch.model import Labels
from enginewatch.notify import bylabels
from enginewatch.notify.bylabels import ByLabels


def test_it_is_worked_out_once_for_labels_that_differ_in_others_only() -> None:
    asked: list[Labels] = []

    def severity(labels: Labels) -> str:
        asked.append(labels)
        return labels.get("severity", "none")

    lookup = ByLabels(["severity"], severity)
    sets = [Labels(severity="page", instance=str(n)) for n in range(3)]
    assert [lookup(each) for each in sets] == ["page"] * 3
    assert len(asked) == 1
    assert lookup(Labels(instance="a")) == lookup(Labels(instance="b", severity="")) == "none"
    assert len(asked) == 2


def test_labels_that_never_repeat_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bylabels, "MOST", 4)
    lookup = ByLabels(["instance"], lambda labels: labels["instance"])
    for number in range(20):
        assert lookup(Labels(instance=str(number))) == str(number)
        assert len(lookup._known) <= 4
