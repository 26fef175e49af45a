"""The quality gate: which losses refuse a rollout, and which evaluations say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path

import pytest

from enginewatch.canary.evaluation import Evaluation, Outcome, rates_of
from enginewatch.canary.paired import Rate
from enginewatch.evidence.verdict import Evidence
from enginewatch.preflight.checks import samples
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import Judged, judge, shipped_preflight
from enginewatch.preflight.observe import observed
from enginewatch.preflight.outcome import Outcome as Result
from enginewatch.preflight.outcome import undetermined
from enginewatch.preflight.readers.checkpoint import Checkpoint
from enginewatch.preflight.readers.quantization import Quantization
from enginewatch.preflight.readers.safetensors import Tensors
from enginewatch.preflight.run import preflight

FORMAT = observed(
    "enginewatch_checkpoint_format_info", 1, Evidence("config.json", 3, "NVFP4"), format="NVFP4"
)


def evaluation(source: str, **families: Iterable[bool]) -> Evaluation:
    outcomes = tuple(
        Outcome(family, str(number), float(passed))
        for family, all_passed in families.items()
        for number, passed in enumerate(all_passed)
    )
    return Evaluation(source, rates_of(outcomes), outcomes)


def answers(tasks: int, lost: int = 0, gained: int = 0, wrong: int = 0) -> tuple[list[bool], ...]:
    """Of a baseline and a candidate, task by task."""
    pairs = [
        *[(True, False)] * lost,
        *[(False, True)] * gained,
        *[(False, False)] * wrong,
        *[(True, True)] * (tasks - lost - gained - wrong),
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]


def judged(facts: Facts, *, quantized: bool = True) -> Judged:
    found = [*samples(facts), *([FORMAT] if quantized else [])]
    return judge(found, shipped_preflight())


def codes(found: Judged) -> set[str]:
    return {finding.code for finding in found.findings if finding.check == "quality"}


@pytest.mark.parametrize(
    ("tasks", "lost", "gained", "expected"),
    [
        # 8B on GSM8K, as published for round-to-nearest FP4: 7.7 points, 13 % change sides.
        (1319, 137, 35, {"EW-QUALITY-005"}),
        (1319, 60, 58, set()),
        # Two points for certain, one for less so.
        (1319, 60, 33, {"EW-QUALITY-006", "EW-QUALITY-007"}),
        (50, 2, 2, {"EW-QUALITY-007"}),
        (50, 0, 0, {"EW-QUALITY-007"}),
        (400, 0, 0, set()),
        (300, 150, 0, {"EW-QUALITY-005"}),
    ],
)
def test_paired_tasks_decide(tasks: int, lost: int, gained: int, expected: set[str]) -> None:
    before, after = answers(tasks, lost, gained)
    facts = Facts(
        evaluations=(evaluation("new", gsm8k=after),), baselines=(evaluation("old", gsm8k=before),)
    )
    assert codes(judged(facts)) == expected


def test_a_finding_shows_how_sure_it_is() -> None:
    before, after = answers(1319, 137, 35, 120)
    facts = Facts(
        evaluations=(evaluation("new", gsm8k=after),), baselines=(evaluation("old", gsm8k=before),)
    )
    [finding] = [each for each in judged(facts).findings if each.code == "EW-QUALITY-005"]
    assert finding.fails
    assert finding.fields["tasks"] == 1319
    assert finding.fields["drop"] == pytest.approx(0.0773, abs=1e-4)
    low, high = finding.fields["drop_low"], finding.fields["drop_high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert 0.05 < low < 0.0773 < high < 0.1
    assert "7.7 percentage points" in finding.summary
    assert "137 tasks lost and 35 gained" in finding.evidence[0].text


def test_one_bad_family_is_not_hidden_by_the_others() -> None:
    good, same = answers(5000, 20, 20)
    before, after = answers(164, 40, 2)
    facts = Facts(
        evaluations=(evaluation("new", mmlu=same, humaneval=after),),
        baselines=(evaluation("old", mmlu=good, humaneval=before),),
    )
    found = [each for each in judged(facts).findings if each.code == "EW-QUALITY-005"]
    assert [each.fields["family"] for each in found] == ["humaneval"]


def test_averages_are_compared_and_need_more() -> None:
    def rates(source: str, rate: float) -> Evaluation:
        return Evaluation(source, {"gsm8k": Rate(rate, 1319)})

    facts = Facts(evaluations=(rates("new", 0.774),), baselines=(rates("old", 0.851),))
    assert codes(judged(facts)) == {"EW-QUALITY-005", "EW-QUALITY-008"}
    facts = Facts(evaluations=(rates("new", 0.851),), baselines=(rates("old", 0.851),))
    assert codes(judged(facts)) == {"EW-QUALITY-008"}


def test_quantized_weights_without_evaluation_are_unknown() -> None:
    found = judged(Facts())
    assert codes(found) == {"EW-QUALITY-001"}
    [(check, reason)] = undetermined(found, ["quality"])
    assert check == "quality"
    assert "NVFP4" in reason


def test_weights_of_16_bits_need_none() -> None:
    bf16 = observed("enginewatch_checkpoint_format_info", 1, None, format="bfloat16")
    assert not codes(judge([bf16], shipped_preflight()))


def test_nothing_known_of_the_weights_does_not_satisfy_a_pipeline_that_asks() -> None:
    report = preflight(Facts(), shipped_preflight(), date(2026, 1, 1), wanted=["quality"])
    assert report.outcome is Result.UNDETERMINED


@pytest.mark.parametrize(
    ("candidate", "baseline", "expected"),
    [
        ({"a": [True] * 400}, None, {"EW-QUALITY-002"}),
        ({"a": [True] * 400}, {"b": [True] * 400}, {"EW-QUALITY-003"}),
    ],
)
def test_nothing_to_compare_with(
    candidate: dict[str, list[bool]], baseline: dict[str, list[bool]] | None, expected: set[str]
) -> None:
    facts = Facts(
        evaluations=(evaluation("new", **candidate),),
        baselines=(evaluation("old", **baseline),) if baseline else (),
    )
    assert codes(judged(facts)) == expected


def test_a_file_compared_with_itself_is_no_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    rows = "\n".join(f"gsm8k,{n},1" for n in range(400))
    path.write_text(f"family,task,score\n{rows}\n")
    facts = gather(Inputs({"--evals": (str(path),), "--baseline-evals": (str(path),)}))
    assert codes(judged(facts)) == {"EW-QUALITY-004"}


def test_a_damaged_evaluation_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"results": ')
    facts = gather(Inputs({"--evals": (str(path),)}))
    found = judged(facts, quantized=False)
    assert [each.code for each in found.findings] == ["EW-INPUT-001"]
    assert dict(undetermined(found, ["quality"]))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct", set()),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --quantization fp8", {"EW-QUALITY-001"}),
        ("vllm serve nvidia/Llama-3.1-8B-Instruct-NVFP4", {"EW-QUALITY-009"}),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype fp8", {"EW-QUALITY-010"}),
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-cache-dtype auto", set()),
        # Released so: there is nothing to compare with.
        ("vllm serve openai/gpt-oss-20b", set()),
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 8", set()),
        ("vllm serve nvidia/DeepSeek-V3-0324-NVFP4 -tp 8", {"EW-QUALITY-009"}),
    ],
)
def test_commands_tell_formats_too(command: str, expected: set[str]) -> None:
    facts = gather(Inputs({"--command": (command,), "--gpus": ("8xB200",)}))
    assert codes(judged(facts, quantized=False)) == expected


def checkpoint(endings: dict[str, int], *, static: bool | None) -> Checkpoint:
    return Checkpoint(
        where="ckpt",
        role="model",
        quantization=Quantization(
            where="ckpt/config.json", method="fp8", static_activations=static
        ),
        weights=Tensors({"F8_E4M3": 10}, {"F8_E4M3": 10}, endings),
    )


@pytest.mark.parametrize(
    ("endings", "static", "expected"),
    [
        ({"weight": 7, "input_scale": 7}, True, {"EW-QUALITY-011"}),
        ({"weight": 7, "input_scale": 7}, None, {"EW-QUALITY-011"}),
        ({"weight": 7, "k_scale": 2}, False, {"EW-QUALITY-011"}),
        ({"weight": 7, "weight_scale": 7}, True, {"EW-QUALITY-012"}),
        ({"weight": 7, "weight_scale": 7}, False, set()),
        ({"weight": 7, "weight_scale": 7}, None, set()),
    ],
)
def test_what_calibration_left_behind(
    endings: dict[str, int], static: bool | None, expected: set[str]
) -> None:
    found = codes(judged(Facts(checkpoints=(checkpoint(endings, static=static),)), quantized=False))
    assert {code for code in found if code in {"EW-QUALITY-011", "EW-QUALITY-012"}} == expected
