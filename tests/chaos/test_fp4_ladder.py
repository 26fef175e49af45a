"""Answers of a real engine, replayed: silent on what is healthy, a page where it was promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chaos.fp4.arithmetic import ANSWER, VOCABULARY
from chaos.fp4.damage import recorded
from chaos.fp4.ladder import RUNGS, TRUSTED, UNSURE, Rung
from chaos.fp4.llama import examine
from chaos.fp4.recording import Recording, read
from chaos.fp4.replay import REPETITIONS, WAYS, Replay, Summary
from chaos.fp4.variants import apply
from chaos.fp4.weights import load

from enginechaos.sim import damage

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "chaos" / "fp4" / "models"
LOST = {"naive-1": 0.01, "naive-5": 0.05, "naive-10": 0.10, "naive-20": 0.20, "naive-100": 1.0}


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read(ROOT / "tests" / "data" / "fp4-ladder.jsonl.xz")


@pytest.fixture(scope="module")
def replay(recording: Recording) -> Replay:
    return Replay(recording)


@pytest.fixture(scope="module")
def summaries(replay: Replay) -> dict[str, Summary]:
    """Each damaged rung of the ladder; a life ends with the page."""
    lives = dict.fromkeys(LOST, 20) | {"naive-1": 8}  # which are long
    return {rung: replay.summary(rung, lives=lives[rung], answers=6000) for rung in LOST}


def test_the_healthy_model_is_silent_over_twenty_thousand_answers(replay: Replay) -> None:
    """Answers that are in no baseline, under seven loads, each judged once on average."""
    life = replay.life(TRUSTED, answers=21_000, seed=1)
    assert life.answers == 21_000
    assert not life.paged


def test_a_deployment_that_is_wrong_at_times_is_silent_too(recording: Recording) -> None:
    replay = Replay(recording, UNSURE)
    assert sum(replay.judged(UNSURE)[0].passed) < 0.95 * len(recording.questions)
    assert not replay.life(UNSURE, answers=5000, seed=1).paged


def test_what_is_judged_as_healthy_is_twenty_thousand_answers(replay: Replay) -> None:
    judged = replay.judged(TRUSTED)
    assert len(judged) + REPETITIONS == 10
    assert sum(len(each.logprob) for each in judged) >= 20_000
    assert len({each.load for each in judged}) == len(judged)


@pytest.mark.parametrize("rung", LOST)
def test_the_ladder_loses_what_its_names_say(replay: Replay, rung: str) -> None:
    passed = [each for round_ in replay.judged(rung) for each in round_.passed]
    assert 1 - sum(passed) / len(passed) == pytest.approx(LOST[rung], rel=0.15)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rung", LOST)
def test_every_rung_pages_within_what_the_plan_promises(
    summaries: dict[str, Summary], rung: str, way: str
) -> None:
    """Promised is the number of answers after which nine deployments in ten have paged; of as few
    as are replayed here, eight in ten is what chance may leave."""
    promised = summaries[rung].planned[way].most
    assert promised is not None
    lives = summaries[rung].lives
    assert sum(life.paged[way] <= promised for life in lives) >= 0.8 * len(lives)


def test_log_probabilities_show_what_pass_rates_do_not_yet(replay: Replay) -> None:
    """MXFP4 loses 0.3 points of this model, which the pass rate's tolerance hides."""
    life = replay.life("mxfp4", answers=3000, seed=1)
    assert set(life.paged) == {"log-prob"}


@pytest.mark.parametrize("rung", RUNGS[:4], ids=lambda rung: rung.name)
def test_the_numpy_model_is_the_one_that_was_served(recording: Recording, rung: Rung) -> None:
    asked = recording.questions[:300]
    text = [question.prompt + question.right for question in asked]
    tokens = np.array([[VOCABULARY.index(sign) for sign in each] for each in text], np.uint8)
    weights = load(MODELS / f"{rung.model}.safetensors")[0]
    exact, likely = examine(apply(weights, rung.variant), tokens)
    served = recording.of(rung.name)[0]
    assert exact.tolist() == served.passed[: len(asked)]
    np.testing.assert_allclose(likely * ANSWER, served.logprob[: len(asked)], rtol=0.01, atol=1e-4)


def test_the_simulated_engine_has_this_ladder(recording: Recording) -> None:
    written = (ROOT / "chaos" / "enginechaos" / "sim" / "damage.yml").read_text(encoding="utf-8")
    assert "\n".join(recorded(recording)) in written
    assert damage.load("naive-10").of("mul").wrong > 2 * damage.load("naive-10").default.wrong
