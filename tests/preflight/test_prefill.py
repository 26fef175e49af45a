"""Budgets: the arithmetic by hand, and a workload out of a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.preflight.errors import PreflightError
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.prefill import StepTime, advise
from enginewatch.preflight.readers.demand import Demand, combined, declared_demand


def demand(**values: object) -> Demand:
    return Demand(where="test", **values)  # type: ignore[arg-type]


def test_the_budget_keeps_prompts_in_step_and_the_gap_as_wanted() -> None:
    asked = demand(prompt=3000, decode=300, batch=64, itl_s=0.05)
    found = advise(asked, 256, 0, StepTime(0.008, 0.00002, measured=True))
    assert found is not None
    assert (found.ratio, found.needed) == (10, 768)  # 64 + 64 x 10 = 704
    assert found.most == 1536  # (0.8 x 50 ms - 8 ms) / 0.02 ms = 1600
    assert found.budget == 1536


def test_drafted_tokens_are_decodes_too() -> None:
    asked = demand(prompt=3000, decode=300, batch=64)
    found = advise(asked, 256, 3, None)
    assert found is not None
    assert (found.needed, found.most, found.budget) == (1024, None, 1024)  # 64 x 4 + 640 = 896


def test_decodes_come_first_even_where_no_budget_gives_both() -> None:
    asked = demand(prompt=30_000, decode=100, batch=64, itl_s=0.009)
    found = advise(asked, 256, 3, StepTime(0.008, 0.00002, measured=True))
    assert found is not None
    assert found.most is not None
    assert found.most < found.needed
    assert found.budget > 64 * 4


@pytest.mark.parametrize("asked", [demand(), demand(prompt=3), demand(decode=3)])
def test_without_a_workload_nothing_is_advised(asked: Demand) -> None:
    assert advise(asked, 256, 0, None) is None


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 10**6),
    st.integers(1, 10**5),
    st.integers(1, 4096),
    st.integers(0, 16),
    st.floats(1e-4, 10),
    st.floats(1e-6, 1),
    st.floats(1e-9, 1e-2),
)
def test_an_advised_budget_never_starves_a_decode(
    prompt: int, decode: int, batch: int, drafted: int, gap: float, quiet: float, token: float
) -> None:
    asked = demand(prompt=prompt, decode=decode, batch=batch, itl_s=gap)
    found = advise(asked, 1, drafted, StepTime(quiet, token, measured=True))
    assert found is not None
    assert found.budget > batch * (1 + drafted)
    assert found.budget % 128 == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt=3000,decode=300,itl=50ms", demand(prompt=3000, decode=300, itl_s=0.05)),
        (" batch=64 , rate=2.5/s ,itl=1s", demand(batch=64, rate=2.5, itl_s=1)),
        ("quiet=12,prefill=0.1ms", demand(quiet_s=0.012, prefill_s=0.0001)),
    ],
)
def test_workloads_as_they_are_written(text: str, expected: Demand) -> None:
    assert replace(declared_demand(text), where="test") == expected


@pytest.mark.parametrize(
    "text", ["promt=3", "prompt=", "prompt=-1", "itl=fast", "rate=inf", "prompt=3,,", "batch=0"]
)
def test_a_workload_that_says_nothing_is_wrong_use(text: str) -> None:
    with pytest.raises(PreflightError) as raised:
        declared_demand(text)
    assert raised.value.hint


PAGE = """# SCRAPE t={at} instance="a:8000"
vllm:num_requests_running{{model_name="m",engine="0"}} 4
vllm:prompt_tokens_total{{model_name="m",engine="0"}} {prompt}
vllm:generation_tokens_total{{model_name="m",engine="0"}} {decode}
vllm:request_success_total{{model_name="m",engine="0",finished_reason="stop"}} {ended}
vllm:inter_token_latency_seconds_sum{{model_name="m",engine="0"}} {gaps}
vllm:inter_token_latency_seconds_count{{model_name="m",engine="0"}} {decode}
"""


def recording(path: Path) -> Path:
    """Four streams: five minutes at 10 ms a token, then five at 20 ms beside prompts of 1000."""
    pages, prompt, decode, ended, gaps = [], 0.0, 0.0, 0.0, 0.0
    for second in range(0, 600, 5):
        busy = second >= 300
        pages.append(
            PAGE.format(at=1000 + second, prompt=prompt, decode=decode, ended=ended, gaps=gaps)
        )
        gap = 0.02 if busy else 0.01
        tokens = 5 * 4 / gap
        decode += tokens
        gaps += tokens * gap
        ended += tokens / 400
        prompt += 5 * 1000 if busy else 0
    path.write_text(
        '# enginewatch recording 1\n# TARGET instance="a:8000" job="vllm"\n' + "".join(pages)
    )
    return path


def test_a_recording_shows_its_workload(tmp_path: Path) -> None:
    facts = gather(Inputs({"--workload": (str(recording(tmp_path / "a.prom")), "itl=50ms")}))
    found = combined(facts.demands)
    assert found is not None
    assert found.decode == pytest.approx(400, rel=0.05)
    assert found.prompt == pytest.approx(1000 / 1.5, rel=0.15)  # over all requests that ended
    assert (found.batch, found.itl_s) == (4, 0.05)
    assert found.quiet_s == pytest.approx(0.01, rel=0.05)
    # Half of the busy time went to prompts: 500 ms for each 1000 tokens.
    assert found.prefill_s == pytest.approx(0.0005, rel=0.15)


@pytest.mark.parametrize("text", ["no recording\n", "# enginewatch recording 1\n"])
def test_a_recording_without_a_workload_is_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.prom").write_text(text)
    facts = gather(Inputs({"--workload": (str(tmp_path / "a.prom"),)}))
    assert facts.demands == ()
    assert [each.check for each in facts.unread] == ["prefill"]


def test_a_recording_that_is_not_there_is_wrong_use() -> None:
    with pytest.raises(PreflightError):
        gather(Inputs({"--workload": ("nowhere.prom",)}))
    assert combined(Facts().demands) is None
