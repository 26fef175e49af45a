"""Label sets: equality, order, what changes make of them, and what one costs."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginewatch import model
from enginewatch.model import EMPTY_LABELS, METRIC_NAME, Labels

mappings = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "1", "2"]))


@given(mappings, mappings)
def test_sets_behave_as_the_mappings_of_their_labels_that_have_a_value(
    one: dict[str, str], two: dict[str, str]
) -> None:
    a, b = Labels(one), Labels(dict(reversed(two.items())))
    full = {name: value for name, value in one.items() if value}
    other = {name: value for name, value in two.items() if value}
    assert dict(a) == full
    assert list(a) == sorted(full)
    assert len(a) == len(full)
    assert (a == b) == (full == other)
    assert (a < b) == (sorted(full.items()) < sorted(other.items()))
    assert a != b or hash(a) == hash(b)
    assert a.with_(**two) == Labels({**one, **two})
    assert a.without("a", "b") == Labels({k: v for k, v in full.items() if k not in "ab"})
    assert a.only("acx") == Labels({k: v for k, v in full.items() if k in "ac"})
    assert all(a.get(name, "") == full.get(name, "") for name in "abcde")
    assert all((name in a) == (name in full) for name in "abcde")
    assert a.interned() == a


def test_an_absent_label() -> None:
    assert EMPTY_LABELS.get("a") is None
    assert EMPTY_LABELS.name == ""
    with pytest.raises(KeyError):
        EMPTY_LABELS["a"]


def test_a_set_is_shown_as_promql_writes_it() -> None:
    labels = Labels({METRIC_NAME: "up", "b": 'say "hi"\n', "a": "1"})
    assert repr(labels) == r'up{a="1", b="say \"hi\"\n"}'
    assert repr(Labels({METRIC_NAME: "up"})) == "up"
    assert repr(EMPTY_LABELS) == "{}"


def test_interned_sets_share_their_strings_and_take_any_kind_of_string() -> None:
    class Kind(StrEnum):
        LONG = "a value of some length"

    one, two = (Labels(kind="".join(["a value ", "of some length"])).interned() for _ in "12")
    assert one["kind"] is two["kind"]
    assert Labels(kind=Kind.LONG).interned() == one


def test_sets_outlive_the_table_of_shared_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_PLACES_LIMIT", 1)
    before = Labels(only_here="1", b="2")
    for n in range(10):
        Labels({f"name{n}": "1"})
    after = Labels(b="2", only_here="1")
    assert before == after
    assert not before < after
    assert Labels(b="1", only_here="9") < before


def test_a_pickled_set_is_found_in_a_process_whose_strings_hash_otherwise() -> None:
    code = (
        "import pickle, sys; from enginewatch.model import Labels;"
        "found = pickle.load(sys.stdin.buffer); print({Labels(b='2', a='1'): 'found'}[found])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(Labels(a="1", b="2")),
        capture_output=True,
        check=True,
    )
    assert shown.stdout.strip() == b"found"


def test_a_set_costs_little_more_than_a_tuple_of_its_values() -> None:
    names = [f"label{n}" for n in range(8)]
    tracemalloc.start()
    kept = [Labels(dict.fromkeys(names, f"value{i // 1000}")).interned() for i in range(5000)]
    spent = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert spent / len(kept) < 300
