"""Original and damaged models on real vLLM, one after another: what does the canary say of each?

    make fp4-proof FP4_VLLM_PYTHON=/path/to/vllm/bin/python

Every rung of the ladder is exported, served, examined by `enginewatch canary compare` as a release
would be, and asked all questions once more under loads of several kinds, which is kept as a
recording: from it the sequential tests are replayed (`replay.py`).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from chaos.fp4 import gate, replay
from chaos.fp4.ask import Answer, Load, ask
from chaos.fp4.export import export
from chaos.fp4.ladder import RUNGS, Rung
from chaos.fp4.recording import Recording, Round, read, write
from chaos.fp4.serving import ENVIRONMENT, ServingError, serving
from chaos.fp4.tasks import Question, lines, questions
from chaos.fp4.weights import load

MODELS = Path(__file__).parent / "models"
# What is healthy is asked again and again: alone, in a crowd, in batches of any size, in another
# order. What differs between rounds is then the engine's own noise.
HEALTHY = (
    Load(2, 33),
    Load(1, 64, seed=1),
    Load(16, 4, seed=2),
    Load(8, 7, seed=3),
    Load(32, 3, seed=4),
    Load(64, 1, seed=5),
    Load(3, 100, seed=6),
    Load(8, 16, seed=7),
    Load(1, 20, seed=8),
    Load(4, 64, seed=9),
)
DAMAGED = (Load(4, 32),)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    vllm: str
    out: Path
    each: int
    gate: int
    answers: int
    rungs: tuple[Rung, ...]


def _round(rung: Rung, asked: list[Question], load_: Load, answers: list[Answer]) -> Round:
    wrong = {
        place: answer.text
        for place, (question, answer) in enumerate(zip(asked, answers, strict=True))
        if answer.text != question.right[:-1]
    }
    likely = [answer.logprob for answer in answers]
    return Round(rung.name, rung.model, rung.variant.name, load_.name, wrong, likely)


def _prove(options: Options, rung: Rung, asked: list[Question]) -> list[Round]:
    """Export, serve, gate and record one rung."""
    folder = options.out / "models" / rung.name
    export(load(MODELS / f"{rung.model}.safetensors")[0], rung.variant, folder)
    rounds = []
    log = options.out / f"{rung.name}.vllm.log"
    with serving(options.vllm, folder, log, rung.dtype) as url:
        if rung.healthy:
            gate.trust(options.out, url, rung)
        verdict = gate.judge(options.out, url, rung, options.answers)
        print(f"{rung.name}: {verdict.shown}", flush=True)
        for load_ in HEALTHY if rung.healthy else DAMAGED:
            started = time.monotonic()
            rounds.append(_round(rung, asked, load_, ask(url, asked, load_)))
            spent = time.monotonic() - started
            share = 1 - len(rounds[-1].wrong) / len(asked)
            print(f"{rung.name}: {load_.name}: {share:.4f} right, {spent:.0f} s", flush=True)
    return rounds


def prove(options: Options) -> None:
    """All rungs, the healthy one first: it is everyone's baseline."""
    options.out.mkdir(parents=True, exist_ok=True)
    asked = questions(options.each)
    tasks = "".join(f"{line}\n" for line in lines(options.gate))
    (options.out / gate.TASKS).write_text(tasks, encoding="utf-8")
    path = options.out / "answers.jsonl.xz"
    recording = _kept(path, asked, options.rungs)
    for rung in options.rungs:
        recording.rounds.extend(_prove(options, rung, asked))
        write(path, recording)
    print(replay.table(recording))


def _kept(path: Path, asked: list[Question], rungs: tuple[Rung, ...]) -> Recording:
    """What an earlier run recorded of other rungs, if it asked the same."""
    kept = read(path) if path.exists() else Recording(asked)
    again = {rung.name for rung in rungs}
    rounds = [each for each in kept.rounds if each.rung not in again]
    return Recording(asked, rounds if kept.questions == asked else [])


def main() -> int:
    """Run the proof; 2 if vLLM can't be had."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get(ENVIRONMENT)
    parser.add_argument("--vllm", default=default, help=f"Python that has vLLM; or ${ENVIRONMENT}")
    parser.add_argument("--out", type=Path, default=Path("fp4-proof-out"))
    parser.add_argument("--each", type=int, default=1000, help="questions a family, recorded")
    parser.add_argument("--gate", type=int, default=200, help="questions a family, for the gate")
    parser.add_argument("--answers", type=int, default=2000, help="at most, judged one by one")
    parser.add_argument("--rungs", help="names, comma between; all of them if not given")
    given = parser.parse_args()
    if not given.vllm:
        print(f"no vLLM: give --vllm or set {ENVIRONMENT} to its Python", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is ended too
    names = given.rungs.split(",") if given.rungs else [rung.name for rung in RUNGS]
    rungs = tuple(rung for rung in RUNGS if rung.name in names)
    try:
        prove(Options(given.vllm, given.out, given.each, given.gate, given.answers, rungs))
    except (ServingError, gate.GateError) as failure:
        print(failure, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
