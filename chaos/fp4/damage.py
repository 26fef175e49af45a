"""The measured ladder as the data that the chaos suite's simulated engine takes its dice from.

    PYTHONPATH=chaos python -m chaos.fp4.damage tests/data/fp4-ladder.jsonl.xz \\
      > chaos/enginechaos/sim/damage.yml

Weight-only formats come from the recording of a real engine; formats that round activations too,
which no engine on a CPU does, from the numpy model over the same questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from chaos.fp4.arithmetic import ANSWER, FAMILIES, VOCABULARY
from chaos.fp4.ladder import TRUSTED, UNSURE
from chaos.fp4.llama import examine
from chaos.fp4.recording import Recording, read
from chaos.fp4.tasks import Question
from chaos.fp4.variants import Variant, apply, rounding
from chaos.fp4.weights import load
from numpy.typing import NDArray

from enginechaos.fp4 import Format

_MODEL = "64x3"
_ACTIVATIONS = {
    "nvfp4-w4a4": Variant(Format.NVFP4, 20.0, activations=True),
    "mxfp4-w4a4": Variant(Format.MXFP4, 20.0, activations=True),
    "tensor": Variant(Format.TENSOR, 1.0, activations=True),
}
_HEAD = """\
# What a numeric format does to answers: for each family of tasks the chance that an answer is
# wrong, and by how much the log-probability of every token falls (nats). `default` stands for
# families that a format doesn't name. `from_batch` (1 by default): only where so many sequences
# share a step, as with faults that a single stream does not show (TensorRT-LLM #4037, flashinfer
# #2933). A `logprob` of .nan is what broken logits give.
#
# Measured, but for the last row: {questions:,} sums, differences and products on a Llama of 0.16
# million parameters that has all of them right in bf16. Weight-only formats on vLLM 0.32.0; those
# that round activations too in numpy. `default` is the mean of the three families. naive-N: one
# scale a tensor, and outlier channels so strong that about N points are lost.
# Printed by `python -m chaos.fp4.damage`.
version: 1
formats:
"""
_TAIL = """\
  nvfp4-batched:
    source: a kernel that is wrong in batches over 2 (TensorRT-LLM #4037); the share is made up
    default: {wrong: 0.32, logprob: -0.33, from_batch: 3}
"""


@dataclass(frozen=True, slots=True)
class Answers:
    """By question: was the answer wrong, and nats that a token of the right one lost."""

    wrong: NDArray[np.bool_]
    fell: NDArray[np.float64]


def _recorded(recording: Recording, rung: str, healthy: NDArray[np.float64]) -> Answers:
    rounds = recording.of(rung)
    wrong = np.array([[not passed for passed in each.passed] for each in rounds])
    logprob = np.array([each.logprob for each in rounds]).mean(axis=0)
    return Answers(wrong.mean(axis=0) > 0.5, (logprob - healthy) / ANSWER)


def _computed(questions: Sequence[Question], variant: Variant) -> Answers:
    weights = load(Path(__file__).parent / "models" / f"{_MODEL}.safetensors")[0]
    rows = np.array(
        [[VOCABULARY.index(sign) for sign in each.prompt + each.right] for each in questions],
        np.uint8,
    )
    _, healthy = examine(apply(weights, Variant()), rows)
    exact, likely = examine(apply(weights, variant), rows, rounding(variant))
    return Answers(~exact, (likely - healthy).astype(np.float64))


def _row(name: str, source: str, answers: Answers, families: NDArray[np.str_]) -> Iterator[str]:
    parts = {
        family: (
            float(answers.wrong[families == family].mean()),
            float(answers.fell[families == family].mean()),
        )
        for family in FAMILIES
    }
    mean = np.mean(list(parts.values()), axis=0)
    yield f"  {name}:"
    yield f"    source: {source}"
    yield f"    default: {_harm(mean[0], mean[1])}"
    yield "    families:"
    for family, (wrong, fell) in parts.items():
        yield f"      {family}: {_harm(wrong, fell)}"


def _harm(wrong: float, fell: float) -> str:
    # A rise of a fraction of a thousandth of a nat is noise of the measurement.
    return f"{{wrong: {wrong:.4g}, logprob: {min(0.0, round(fell, 6)):.3g}}}"


def recorded(recording: Recording) -> Iterator[str]:
    """The rows of what was served."""
    families = _families(recording)
    healthy = np.array([each.logprob for each in recording.of(TRUSTED)]).mean(axis=0)
    for rung in dict.fromkeys(each.rung for each in recording.rounds if each.rung != UNSURE):
        source = f"weights as {recording.of(rung)[0].variant}"
        yield from _row(rung, source, _recorded(recording, rung, healthy), families)


def computed(recording: Recording) -> Iterator[str]:
    """The rows of what can't be served without a GPU."""
    for name, variant in _ACTIVATIONS.items():
        source = f"weights and activations as {variant.name}"
        answers = _computed(recording.questions, variant)
        yield from _row(name, source, answers, _families(recording))


def _families(recording: Recording) -> NDArray[np.str_]:
    return np.array([each.family for each in recording.questions])


def main() -> None:
    """Print the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    recording = read(parser.parse_args().recording)
    print(_HEAD.format(questions=len(recording.questions)), end="")
    for line in (*recorded(recording), *computed(recording)):
        print(line)
    print(_TAIL, end="")


if __name__ == "__main__":
    main()
