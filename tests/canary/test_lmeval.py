"""Evaluations of lm-evaluation-harness and tables, read and compared."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.canary.errors import CanaryError
from enginewatch.canary.evaluation import OVERALL, Evaluation, Outcome, compare, rates_of
from enginewatch.canary.lmeval import read_evaluation
from enginewatch.canary.paired import Paired, Rate, Unpaired

TIME = "2026-03-01T10-00-00.123456"


def results(**more: Any) -> dict[str, Any]:
    return {
        "results": {
            "gsm8k": {
                "alias": "gsm8k",
                "exact_match,strict-match": 0.85,
                "exact_match_stderr,strict-match": 0.0098,
                "exact_match,flexible-extract": 0.86,
            },
            "mmlu": {"acc,none": 0.7, "acc_stderr,none": "N/A", "alias": "mmlu"},
            "mmlu_law": {"acc,none": 0.6, "acc_stderr,none": 0.01, "alias": " - law"},
            "wikitext": {"word_perplexity,none": 9.1},
        },
        "group_subtasks": {"mmlu": ["mmlu_law"], "gsm8k": []},
        "n-samples": {"gsm8k": {"original": 1319, "effective": 1319}},
        "config": {"model": "vllm", "model_args": "pretrained=some/model", "model_dtype": "bf16"},
        "lm_eval_version": "0.4.9",
        **more,
    }


def sample(doc: int, score: float, filter_: str = "strict-match", **more: Any) -> dict[str, Any]:
    return {
        "doc_id": doc,
        "doc": {"question": "?"},
        "target": "#### 18",
        "resps": [["so it is 18\n#### 18"]],
        "filtered_resps": ["18"],
        "filter": filter_,
        "metrics": ["exact_match"],
        "exact_match": score,
        **more,
    }


def write_run(folder: Path, scores: list[float], time: str = TIME) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"results_{time}.json").write_text(json.dumps(results()))
    lines = [json.dumps(sample(doc, 1.0, "flexible-extract")) for doc in range(len(scores))]
    lines += [json.dumps(sample(doc, score)) for doc, score in enumerate(scores)]
    (folder / f"samples_gsm8k_{time}.jsonl").write_text("\n".join(lines) + "\n")


def test_averages_with_how_many_tasks_they_are_of(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results()))
    found = read_evaluation(path)
    assert found.rates["gsm8k"] == Rate(0.85, 1319)
    assert found.rates["mmlu_law"] == Rate(0.6, 2401), "as its standard error says"
    assert found.rates.keys() == {"gsm8k", "mmlu_law"}
    assert found.about == {
        "model": "pretrained=some/model",
        "engine": "vllm",
        "version": "0.4.9",
        "format": "bf16",
    }


def test_samples_beside_the_results_under_one_filter(tmp_path: Path) -> None:
    write_run(tmp_path / "model", [1, 1, 0, 1])
    for path in (tmp_path, tmp_path / "model" / f"results_{TIME}.json"):
        found = read_evaluation(path)
        assert found.rates["gsm8k"] == Rate(0.75, 4)
        assert found.outcomes[2] == Outcome("gsm8k", "2", 0.0, "18", "#### 18")
    alone = read_evaluation(tmp_path / "model" / f"samples_gsm8k_{TIME}.jsonl")
    assert alone.rates == {"gsm8k": Rate(0.75, 4)}


def test_of_several_runs_the_newest(tmp_path: Path) -> None:
    write_run(tmp_path, [0, 0])
    write_run(tmp_path, [1, 0], "2026-03-02T10-00-00.000000")
    assert read_evaluation(tmp_path).rates["gsm8k"] == Rate(0.5, 2)


def test_paired_where_samples_match(tmp_path: Path) -> None:
    write_run(tmp_path / "old", [1] * 50)
    write_run(tmp_path / "new", [1] * 40 + [0] * 10)
    gsm, law, overall = compare(
        read_evaluation(tmp_path / "old"), read_evaluation(tmp_path / "new")
    )
    assert gsm.paired == Paired(both=40, lost=10)
    assert len(gsm.lost) == 10
    assert law.paired is None
    assert law.difference == Unpaired(Rate(0.6, 2401), Rate(0.6, 2401))
    assert overall.family == OVERALL
    assert overall.paired is None, "a part of it is not"
    assert overall.baseline.tasks == 2451


def test_a_selection_is_not_paired() -> None:
    outcomes = [Outcome("a", str(n), 1.0) for n in range(100)]
    old = Evaluation("old", rates_of(outcomes), tuple(outcomes))
    new = Evaluation("new", rates_of(outcomes[:50]), tuple(outcomes[:50]))
    (found,) = compare(old, new)
    assert found.paired is None


def test_of_several_answers_to_a_task_the_majority() -> None:
    old = [Outcome("a", "1", score) for score in (1.0, 1.0, 0.0)]
    new = [Outcome("a", "1", score) for score in (1.0, 0.0, 0.0)]
    (found,) = compare(
        Evaluation("o", rates_of(old), tuple(old)), Evaluation("n", rates_of(new), tuple(new))
    )
    assert found.paired == Paired(lost=1)


def test_tables(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text('family,task,score,answer\nmath,1,1,"4, of course"\nmath,2,0,5\n')
    found = read_evaluation(rows)
    assert found.rates == {"math": Rate(0.5, 2)}
    assert found.outcomes[0].answer == "4, of course"
    averages = tmp_path / "averages.csv"
    averages.write_text("tasks,family,rate\n100,math,0.9\n50,code,0.5\n")
    assert read_evaluation(averages).rates == {"math": Rate(0.9, 100), "code": Rate(0.5, 50)}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", "[]", "not results"),
        ("a.json", '{"results": {"x": {"ppl,none": 3}}}', "no pass rates"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.jsonl", "", "no samples"),
        ("a.jsonl", '{"doc_id": 1}\n', "a.jsonl:1: the sample has no metric"),
        ("a.jsonl", '{"doc_id": 1, "acc": NaN}\n', "a.jsonl:1: acc is nan"),
        ("a.jsonl", '{"doc_id": 1, "acc": 1}\n7\n', "a.jsonl:2: not a sample"),
        ("a.csv", "x,y\n1,2\n", "family,task,score"),
        ("a.csv", "family,task,score\nm,1,yes\n", "a.csv:2: score is 'yes'"),
        ("a.csv", "family,task,score\nm,1,7\n", "score is 7"),
        ("a.csv", "family,task,score\n", "no rows"),
        ("a.csv", "family,rate,tasks\nm,2,10\n", "a.csv:2"),
        ("a.csv", "family,rate,tasks\nm,0.5,inf\n", "a.csv:2"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(CanaryError) as failure:
        read_evaluation(path)
    assert said in str(failure.value)


def test_no_file_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CanaryError, match="can't be read"):
        read_evaluation(tmp_path / "gone.json")
    with pytest.raises(CanaryError, match="no evaluation in this folder"):
        read_evaluation(tmp_path)
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(CanaryError, match="UTF-8"):
        read_evaluation(tmp_path / "b.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(["results", "n-samples", "group_subtasks", "doc_id", "acc", "filter", "x"])


@given(st.dictionaries(KEYS, JSON), st.sampled_from(["f.json", "f.jsonl", "f.csv"]))
@settings(deadline=None, max_examples=150)
def test_any_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any], name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_text(json.dumps(value))
    with contextlib.suppress(CanaryError):
        assert read_evaluation(path).rates
