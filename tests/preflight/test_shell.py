"""Shell text as people write it: what the engine is really given."""

from __future__ import annotations

import shlex
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from enginewatch.preflight.readers.shell import ShellError, read_script


def words(text: str, **environment: str) -> list[list[str]]:
    script = read_script(text, "run.sh", environment)
    return [[word.text for word in command.words] for command in script.commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve m --port 1", [["vllm", "serve", "m", "--port", "1"]]),
        ("vllm serve \\\n  m # why", [["vllm", "serve", "m"]]),
        ("vllm serve \\\r\n  m\r\n", [["vllm", "serve", "m"]]),
        ("""a '{"k": "v"}' "b c" d\\ e $'f\\n'""", [["a", '{"k": "v"}', "b c", "d e", "f\n"]]),
        ('a {"k": "v"}', [["a", "{k:", "v}"]]),
        ("X=1; a $X ${X} ${Y:-2} ${Y-3} ${X:+4} ${Y:+5}", [["a", "1", "1", "2", "3", "4"]]),
        ('A="--x 1"; a $A "$A"', [["a", "--x", "1", "--x 1"]]),
        ('A=(--x "1 2")\nA+=(y)\na "${A[@]}"', [["a", "--x", "1 2", "y"]]),
        ("A=(--x # one\n  --y)\na ${A[@]}", [["a", "--x", "--y"]]),
        ("a $HOME/x", [["a", "/root/x"]]),
        ("if [ -f x ]; then a 1; else a 2; fi", [["a", "1"], ["a", "2"]]),
        ("a > log 2>&1 & b | tee c", [["a"], ["b"], ["tee", "c"]]),
        ("a 1 && b || c", [["a", "1"], ["b"], ["c"]]),
        ("a $(nproc) `x`", [["a", "$(nproc)", "`x`"]]),
        ("f() { a 1; }\nf", [["f"], ["a", "1"], ["f"]]),
        ("", []),
        ("# nothing\n\n", []),
    ],
)
def test_words(text: str, expected: list[list[str]]) -> None:
    assert words(text, HOME="/root") == expected


def test_what_comes_from_outside_is_marked() -> None:
    script = read_script('a "$1" $NOBODY $(date) ok', "run.sh")
    assert [word.known for word in script.commands[0].words] == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if x; then A=1; else A=2; fi\na $A", "$A ?"),
        ("A=1\nif x; then A=2; fi\na $A", "$A ?"),
        ("A=1\nif x; then A=1; else A=1; fi\na $A", "1"),
        ("A=1\nif x; then A=2; a $A; else a $A; fi", "2|1"),
        ("if x; then A=2; elif y; then A=3; fi\na $A", "$A ?"),
        ("if [ -z $A ]; then A=2; fi\na $A", "2"),
        ("A=1\n[ $X ] && A=2\na $A", "$A ?"),
        ("A=1\n[ $X ] || A=2; a $A", "$A ?"),
        ("case $1 in b) A=1;; c) A=2;; esac\na $A", "$A ?"),
        ("A=1\ncase $1 in b) A=2;; esac\na $A", "$A ?"),
        ("A=1\ncase $1 in b) A=2;; *) A=2;; esac\na $A", "2"),
        ("A=1\ncase $1 in b) A=2; a $A;; *) a $A;; esac", "2|1"),
        ("A=1\nif x; then A=2; exit 1; fi\na $A", "1"),
        ("A=1\nif x; then A=2; a $A; exec b; fi\na $A", "2|1"),
        ("if x; then cd y || exit 1; A=2; else A=1; fi\na $A", "$A ?"),
        ("if x; then cd y || { echo; exit 1; }; A=2; else A=1; fi\na $A", "$A ?"),
        ("A=1\nx || { A=2; }\na $A", "$A ?"),
        ("A=1\nf() { A=2; a $A; }\nf\na $A", "2|$A ?"),
        ("if x; then A=1; if y; then A=2; fi; else A=1; fi\na $A", "$A ?"),
        ("A=1\nfor f in *; do A=2; done\na $A", "$A ?"),
        ("A=1\nif x; then unset A; fi\na $A", "1"),
        ("A=1\nif x; then A=2; fi\nA=3\na $A", "3"),
        ("A=(1)\nif x; then A+=(2); fi\na ${A[@]}", "1 2"),
        ('A="--x"\nif x; then A="$A --y"; fi\na $A', "--x --y"),
        ("A=1\nif x; then A=16; fi\na $A", "$A ?"),
        ("fi; done; esac; A=1\nelse\na $A", "1"),
        (": ${A:=4}\na $A", "4"),
        ("A=1; A+=6\na $A", "16"),
    ],
)
def test_a_variable_that_branches_leave_different_is_not_known(text: str, expected: str) -> None:
    told = []
    for command in read_script(text, "run.sh").commands:
        if command.words[0].text == "a":
            rest = (word.text if word.known else f"{word.text} ?" for word in command.words[1:])
            told.append(" ".join(rest))
    assert "|".join(told) == expected


def test_scripts_that_it_runs_inside_itself_are_told() -> None:
    script = read_script("source ./env.sh\n. /etc/profile\nset -a; . .env", "run.sh")
    assert [word.text for word in script.sourced] == ["./env.sh", "/etc/profile", ".env"]


def test_only_exported_variables_reach_the_program() -> None:
    script = read_script("A=1\nexport B=2 C\nC=3\nD=4 a\nset -a\nE=5\nb", "run.sh")
    assert {name: word.text for name, word in script.commands[0].env.items()} == {
        "B": "2",
        "D": "4",
    }
    assert set(script.commands[1].env) == {"B", "E"}


def test_here_documents_are_files() -> None:
    text = "N=4\ncat > a.yml <<EOF\ntp: $N\nEOF\ncat <<'EOF' | tee b.yml\nx: $N\nEOF\n"
    script = read_script(text, "run.sh")
    assert script.files["a.yml"].text == "tp: 4\n"
    assert script.files["a.yml"].line == 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a --x 1 \\ \n  --y 2", "escaped blank"),
        ("a --x 1 \\\n  # --y 2\n  --z 3", "option as command"),
    ],
)
def test_a_broken_continuation_is_told(text: str, kind: str) -> None:
    assert kind in {trap.kind for trap in read_script(text, "run.sh").traps}


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a `b", "cat <<EOF\nx", "a ${b"])
def test_what_no_shell_would_run_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ShellError) as raised:
        read_script(text, "run.sh")
    assert raised.value.where.startswith("run.sh:1")


def test_variables_that_grow_without_end_are_refused() -> None:
    text = "A=aaaaaaaaaa\n" + "A=$A$A$A$A\n" * 30 + "a $A"
    with pytest.raises(ShellError):
        read_script(text, "run.sh")


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab= \n\t\\'\"$`{}()[]<>|&;#-:+@*1é", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ShellError):
        read_script(text, "run.sh")


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab=- \t\\'\"{:,é", max_size=40))
def test_words_are_split_as_the_standard_library_splits_them(text: str) -> None:
    assume(not text.endswith("\\"))  # a shell keeps it, the library refuses
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ShellError):
            read_script(f"run {text}", "run.sh")
        return
    command = read_script(f"run {text}", "run.sh").commands[0]
    assert [word.text for word in command.words] == ["run", *expected]
