"""The command as pipelines run it: exit codes, and one clear error for wrong use."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as Xml

import pytest

from enginewatch.cli import main
from enginewatch.cli.preflight import INPUTS, Format
from enginewatch.preflight.inputs import ELSEWHERE, READERS
from enginewatch.preflight.report import FORMATS

LOSS = "family,task,score\n" + "\n".join(f"gsm8k,{n},{int(n % 10 > 0)}" for n in range(600))
GOOD = "family,task,score\n" + "\n".join(f"gsm8k,{n},1" for n in range(600))


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The console script in this process, in a folder with two evaluations."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")

    def command(*arguments: str) -> Done:
        monkeypatch.setattr("sys.argv", ["enginewatch", "preflight", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return Done(int(ended.value.code or 0), told.out, told.err)

    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "loss.csv").write_text(LOSS)
    (tmp_path / "good.csv").write_text(GOOD)
    return tmp_path


GATE = ("--evals", "loss.csv", "--baseline-evals", "good.csv", "--gpus", "1xH200")
FINE = ("--evals", "good.csv", "--baseline-evals", "copy.csv", "--gpus", "1xH200")


def test_a_loss_fails_and_says_so_in_every_form(run: Run) -> None:
    done = run(*GATE)
    assert done.returncode == 1
    assert "EW-QUALITY-005" in done.stdout
    assert not done.stderr
    done = run(*GATE, "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "fail"
    done = run(*GATE, "--format", "junit")
    assert Xml.fromstring(done.stdout).attrib["failures"] == "1"


def test_a_good_evaluation_passes(run: Run, folder: Path) -> None:
    (folder / "copy.csv").write_text(GOOD)
    done = run(*FINE, "--require", "quality")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_required_check_without_inputs_is_3(run: Run) -> None:
    done = run("--gpus", "1xH200", "--require", "quality")
    assert done.returncode == 3
    assert "Required and not determined: quality" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--engine-dir", "."),
        ("--model-repository", "."),
        ("--command", "true"),
        ("--freeze", "good.csv"),
        ("--model", "org/unheard-of"),
    ],
)
def test_what_is_unknown_in_full_is_3(run: Run, arguments: tuple[str, ...]) -> None:
    """That the target's GPU is known says nothing of what goes there."""
    for more in ((), ("--gpus", "4xH100")):
        done = run(*arguments, *more)
        assert done.returncode == 3, done.stdout
        assert "judged nothing" in done.stdout


def test_an_accepted_loss_passes_until_it_expires(run: Run, folder: Path) -> None:
    known = folder / "known.yml"
    text = "accept: [{code: EW-QUALITY-005, reason: pilot, until: 2999-01-01}]"
    known.write_text(text)
    assert run(*GATE, "--accept", "known.yml").returncode == 0
    known.write_text(text.replace("2999", "2020"))
    done = run(*GATE, "--accept", "known.yml")
    assert done.returncode == 1
    assert "was accepted until 2020-01-01" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing to judge"),
        (("--gpu", "8xB200"), "No such option: --gpu"),
        (("--gpus", "8 x"), "--gpus"),
        (("--gpus", "0xB200"), "'0xB200' does not say how many of which GPU"),
        (("--gpus", "-3xB200"), "does not say how many of which GPU"),
        (("--runtime", "vllm"), "'vllm' does not say a name and a version"),
        (("--format", "xml"), "'xml' is not one of"),
        (("--require", "memry", "--gpus", "H200"), "no check is called 'memry'"),
        (("--require", "", "--gpus", "H200"), "no check is called ''"),
        (("--require", " , ", "--gpus", "H200"), "no check is called ' , '"),
        (("--engine-dir", ""), "--engine-dir: is empty"),
        (("--command", " "), "--command: is empty"),
        (("--url", ""), "not a URL"),
        (("--engine-dir", "nowhere"), "nowhere does not exist"),
        (("--engine-dir", "good.csv"), "good.csv is not a directory"),
        (("--model-repository", "nowhere"), "nowhere does not exist"),
        (("--script", "nowhere.sh"), "can't be read: No such file or directory"),
        (("--manifest", "nowhere.yml"), "can't be read: No such file or directory"),
        (("--freeze", "nowhere.txt"), "can't be read: No such file or directory"),
        (("--freeze", "."), "can't be read: Is a directory"),
        (("--evals", "nowhere"), "nowhere does not exist"),
        (("--accept", "nowhere.yml", "--gpus", "H200"), "can't be read: No such file"),
        (("--url", "ftp://x"), "not a URL"),
        (("--url", "http://user:secret@x"), "credentials"),
        (("--workload", "prompt=many"), "--workload"),
    ],
)
def test_wrong_use_is_one_clear_error(run: Run, arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in " ".join(done.stderr.replace("\n", " ").split())
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert not done.stdout


def test_every_option_that_names_an_input_has_a_reader() -> None:
    assert set(INPUTS) == set(READERS) | ELSEWHERE


def test_every_form_has_a_name() -> None:
    assert {str(form) for form in Format} == set(FORMATS)


@pytest.mark.parametrize(
    ("name", "text", "arguments", "code"),
    [
        (
            "unquoted.sh",
            'vllm serve m --speculative-config {"model": "d", "num_speculative_tokens": 3}\n',
            ("--script", "unquoted.sh"),
            "EW-LAUNCH-004",
        ),
        (
            "flag.sh",
            "vllm serve m --tensor-paralel-size 2\n",
            ("--script", "flag.sh"),
            "EW-LAUNCH-001",
        ),
        ("open.sh", "vllm serve 'm\n", ("--script", "open.sh"), "EW-INPUT-001"),
        (
            "tags.yml",
            "kind: Pod\nspec: !!python/object/apply:os.system ['true']\n",
            ("--manifest", "tags.yml"),
            "EW-INPUT-001",
        ),
        (
            "bomb.yml",
            "a: &a [x, x, x, x]\n"
            + "".join(
                f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
                for before, after in pairwise("abcdefghij")
            ),
            ("--manifest", "bomb.yml"),
            "EW-INPUT-001",
        ),
        ("tabs.yml", "services:\n\tengine: {}\n", ("--manifest", "tabs.yml"), "EW-INPUT-001"),
        ("binary.sh", "\x00\x7fELF", ("--script", "binary.sh"), "EW-INPUT-001"),
        ("scores.csv", "family,task\n", ("--evals", "scores.csv"), "EW-INPUT-001"),
        ("results.json", "[[[[", ("--evals", "results.json"), "EW-INPUT-001"),
    ],
)
def test_what_is_wrong_in_a_file_is_a_finding(
    run: Run, folder: Path, name: str, text: str, arguments: tuple[str, ...], code: str
) -> None:
    """Never a traceback, and never a pass where the check is required."""
    (folder / name).write_text(text)
    done = run(*arguments, "--gpus", "H200", "--format", "json", "--require", "all")
    assert done.returncode in {1, 3}, done.stderr
    assert code in {finding["code"] for finding in json.loads(done.stdout)["findings"]}
    assert not done.stderr
