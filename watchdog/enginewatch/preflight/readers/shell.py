"""Which commands a script runs, with which words and environment, as far as the script tells.

Every command is told, whichever branch it stands in. Variables are expanded from
the script's own assignments, `${X:-default}` and the environment that is given; what
comes from outside (`$1`, `$(nproc)`, a variable that nobody sets, or that two branches
set differently) stays as written and is marked. Here-documents that are written to a
file are kept: scripts make their configuration that way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from enginewatch.preflight.readers.shell_lexer import Part, ShellError, Token, tokens
from enginewatch.preflight.readers.shell_variables import Variable, Variables, Word

__all__ = ["Command", "Script", "ShellError", "Trap", "Word", "read_script"]

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_SEPARATORS: Final = frozenset({"\n", ";", "&", "|", "|&", "&&", "||", ";;", ";&", ";;&", "(", ")"})
_REDIRECTIONS: Final = frozenset(
    {"<", ">", ">>", "<&", ">&", "<>", ">|", "&>", "&>>", "<<<", "<<", "<<-"}
)
_KEYWORDS: Final = frozenset(
    {"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}", "time"}
)
_HEADERS: Final = frozenset({"for", "case", "select", "function", "esac", "[[", "((", "["})
_BRANCHES: Final = frozenset({";;", ";&", ";;&"})
_EXPORTS: Final = frozenset({"export", "declare", "typeset", "readonly", "local"})
_LONGEST: Final = 1 << 18
"""Characters of a script, and of all that its variables expand to: none is this long."""


class Trap(NamedTuple):
    """Something legal that is hardly ever meant."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command; `env` is what the script exports to it or sets before it."""

    words: tuple[Word, ...]
    env: Mapping[str, Word]
    line: int


@dataclass(frozen=True, slots=True)
class Script:
    """`files` are here-documents by the path that they are written to; `sourced` the scripts that
    it runs inside itself, which may set any variable."""

    name: str
    commands: tuple[Command, ...]
    files: Mapping[str, Word]
    traps: tuple[Trap, ...]
    sourced: tuple[Word, ...]


def read_script(
    text: str, name: str, environment: Mapping[str, str] | None = None, *, first_line: int = 1
) -> Script:
    """The commands of shell text; `name` is the file's, or of the flag that gave the text.

    Lines count from `first_line`, for text that stands inside a file.

    Raises ShellError where a quote, a bracket or a here-document is not closed.
    """
    if len(text) > _LONGEST:
        raise ShellError("a script this long was not written by hand", where=name)
    return _Reader(name, environment or {}).run(tokens(text, name, first_line))


@dataclass(slots=True)
class _Reader:
    name: str
    environment: Mapping[str, str]
    variables: Variables = field(default_factory=Variables)
    commands: list[Command] = field(default_factory=list)
    files: dict[str, Word] = field(default_factory=dict)
    traps: list[Trap] = field(default_factory=list)
    sourced: list[Word] = field(default_factory=list)
    exports_all: bool = False
    written: int = 0

    def run(self, stream: list[Token]) -> Script:
        start = 0
        index = 0
        before = ""
        while index < len(stream):
            token = stream[index]
            if token.parts is None and token.raw in _SEPARATORS:
                if token.raw == "(" and token.joined and _is_array(stream, start, index):
                    index = _array_end(stream, index)
                    continue
                self._simple(stream[start:index], before)
                if token.raw in _BRANCHES:
                    self.variables.branch()
                elif token.raw == ")" and index > start:
                    self.variables.pattern(stream[index - 1].raw)
                start = index + 1
                before = token.raw
            index += 1
        self._simple(stream[start:], before)
        return Script(
            self.name,
            tuple(self.commands),
            dict(self.files),
            tuple(self.traps),
            tuple(self.sourced),
        )

    def _simple(self, found: list[Token], before: str) -> None:
        """A simple command; `before` is the operator that it stands behind."""
        found = self._without_redirections(found)
        while found and found[0].parts is not None and found[0].raw in _KEYWORDS:
            self._fork(found[0].raw)
            found = found[1:]
        if not found or (found[0].parts is not None and found[0].raw in _HEADERS):
            self._fork(found[0].raw if found else "")
            return
        for token in found:
            self.traps += [Trap(trap, token.raw, token.line) for trap in token.traps]
        assigned: list[tuple[str, Variable]] = []
        while found:
            name, variable, used = self._assignment(found)
            if not used:
                break
            assigned.append((name, variable))
            found = found[used:]
        if not found:
            perhaps = before in {"&&", "||"}
            if perhaps:
                self.variables.open()
            for name, variable in assigned:
                self._set(name, variable)
            if perhaps:
                self.variables.close()
            return
        words = [word for token in found for word in self._expand(token)]
        # Behind && and || it may not come to that.
        if words and before not in {"&&", "||"} and _leaves(words):
            self.variables.leave()
        if words and not self._builtin(words, found):
            self._command(words, assigned)

    def _fork(self, keyword: str) -> None:
        # What stands in braces is a function's, or behind && and ||: it may run or not.
        if keyword in {"if", "while", "until", "for", "select", "{"}:
            self.variables.open()
        elif keyword == "case":
            self.variables.open(is_case=True)
        elif keyword in {"elif", "else"}:
            self.variables.branch(is_last=keyword == "else")
        elif keyword in {"fi", "done", "esac", "}"}:
            self.variables.close()

    def _builtin(self, words: list[Word], found: list[Token]) -> bool:
        """Whether the shell itself does it: what changes variables is done here too."""
        name = words[0].text
        if name in _EXPORTS:
            self._export(found)
        elif name == "unset":
            for word in words[1:]:
                self.variables.set(word.text, None)
        elif name in {"source", "."} and len(words) > 1:
            self.sourced.append(words[1])
        elif name == "set":
            marks = {word.text for word in words}
            self.exports_all = self.exports_all or bool({"-a", "allexport"} & marks)
        else:
            return False
        return True

    def _command(self, words: list[Word], assigned: list[tuple[str, Variable]]) -> None:
        if words[0].raw.startswith("-"):
            self.traps.append(Trap("option as command", words[0].raw, words[0].line))
        env = {
            name: _one(variable.words)
            for name, variable in self.variables.items()
            if variable.exported
        }
        env.update((name, _one(variable.words)) for name, variable in assigned)
        self.commands.append(Command(tuple(words), env, words[0].line))

    def _without_redirections(self, found: list[Token]) -> list[Token]:
        kept: list[Token] = []
        target = ""
        body: Token | None = None
        index = 0
        while index < len(found):
            token = found[index]
            if token.parts is None and token.raw in _REDIRECTIONS:
                if token.joined and kept and kept[-1].raw.isdigit():
                    kept.pop()
                aimed = found[index + 1] if index + 1 < len(found) else None
                if aimed is not None and aimed.body is not None:
                    body = aimed
                elif aimed is not None and token.raw in {">", ">>", ">|"}:
                    target = _one(list(self._expand(aimed))).text
                index += 2
                continue
            kept.append(token)
            index += 1
        if body is not None:
            if not target and len(kept) > 1 and kept[0].raw == "tee":
                target = kept[-1].raw
            self._here(target, body)
        return kept

    def _here(self, target: str, delimiter: Token) -> None:
        if not target or delimiter.body is None:
            return
        plain = any(part.quoted for part in delimiter.parts or ())
        text = delimiter.body if plain else self._substituted(delimiter.body)
        self.files[target] = Word(text, delimiter.raw, delimiter.line + 1)

    def _substituted(self, text: str) -> str:
        """A here-document's own expansion: of variables that the script sets, nothing else."""

        def value(found: re.Match[str]) -> str:
            variable = self.variables.get(found[1] or found[2])
            return _one(variable.words).text if variable else found[0]

        return re.sub(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))", value, text)

    def _assignment(self, found: list[Token]) -> tuple[str, Variable, int]:
        """The variable that the first tokens set, and how many they are; 0 for none."""
        token = found[0]
        match = _ASSIGNMENT.match(token.raw) if token.parts is not None else None
        if match is None or token.parts is None:
            return "", Variable([]), 0
        name, adds = match[1], bool(match[2])
        used = 1
        if len(found) > 1 and found[1].raw == "(" and token.raw == match[0]:
            end = _array_end(found, 1)
            words = [w for each in found[2 : end - 1] for w in self._expand(each)]
            used = end
        else:
            value = replace(token, parts=_after(token.parts, len(match[0])))
            words = [_one(list(self._expand(value, splits=False)), token)]
        known = self.variables.get(name)
        if adds and known is not None:
            words = [_appended(known.words, words[0])] if used == 1 else [*known.words, *words]
        return name, Variable(words), used

    def _set(self, name: str, variable: Variable) -> None:
        known = self.variables.get(name)
        variable.exported = self.exports_all or (known is not None and known.exported)
        self.variables.set(name, variable)

    def _export(self, found: list[Token]) -> None:
        exports = found[0].raw == "export" or any(token.raw == "-x" for token in found)
        for index in range(1, len(found)):
            name, variable, used = self._assignment(found[index:])
            if used:
                self._set(name, variable)
            name = name or found[index].raw
            known = self.variables.get(name)
            if exports and known is not None:
                known.exported = True

    def _expand(self, token: Token, *, splits: bool = True) -> Iterator[Word]:
        """The words that a token becomes: none, one, or several where a variable is unquoted."""
        words: list[Word] = []
        text, known, exists = "", True, False
        for part in token.parts or ():
            values = self._values(part)
            if part.kind == "text" or part.quoted or not splits:
                pieces = values if _is_list(part) and splits else [_joined(values)]
            else:
                pieces = [v for value in values for v in _split(value)]
            exists = exists or part.quoted or bool(pieces and any(p.text for p in pieces))
            for index, piece in enumerate(pieces):
                if index:
                    words.append(Word(text, token.raw, token.line, known))
                    text, known = "", True
                text += piece.text
                known = known and piece.known
            self.written += sum(len(piece.text) for piece in pieces)
            if self.written > _LONGEST:
                raise ShellError("its variables expand to too much", where=self.name)
        if exists or words:
            words.append(Word(text, token.raw, token.line, known))
        yield from words

    def _values(self, part: Part) -> list[Word]:
        if part.kind == "text":
            return [Word(part.text, part.text, 0)]
        if part.kind == "unknown":
            return [Word(part.text, part.text, 0, False)]
        raw = f"${{{part.text}{part.rest}}}" if part.rest else f"${part.text}"
        given = self._given(part.text)
        operator, word = part.rest.removeprefix(":")[:1], part.rest.removeprefix(":")[1:]
        unset = given is None or (part.rest.startswith(":") and not _joined(given).text)
        if operator == "+" and unset:
            return []
        if operator == "=" and unset:
            self._set(part.text, Variable([self._default(word, raw)]))
        if operator == "+" or (operator in {"-", "="} and unset):
            return [self._default(word, raw)]
        plain = part.rest in {"", "[@]", "[*]"} or operator in {"-", "=", "?"}
        return given if given is not None and plain else [Word(raw, raw, 0, False)]

    def _given(self, name: str) -> list[Word] | None:
        variable = self.variables.get(name)
        if variable is not None:
            return variable.words
        if name in self.environment:
            return [Word(self.environment[name], name, 0)]
        return None

    def _default(self, text: str, raw: str) -> Word:
        """The value of a default: quotes dropped, and plain variables in it expanded."""
        if "$(" in text or "`" in text:
            return Word(raw, raw, 0, False)
        bare = text.strip("\"'")
        filled = self._substituted(bare)
        return Word(filled, raw, 0, "$" not in filled)


def _leaves(words: list[Word]) -> bool:
    """Whether nothing that stands behind is run."""
    name = words[0].text
    return name in {"exit", "return"} or (name == "exec" and len(words) > 1)


def _is_list(part: Part) -> bool:
    return part.kind == "variable" and (part.rest == "[@]" or part.text == "@")


def _split(value: Word) -> list[Word]:
    """An unquoted expansion, at its blanks; one that is not known stays whole."""
    if not value.known:
        return [value]
    return [value._replace(text=piece) for piece in value.text.split()] or [value._replace(text="")]


def _joined(values: list[Word]) -> Word:
    if len(values) == 1:
        return values[0]
    text = " ".join(value.text for value in values)
    return Word(text, text, 0, all(value.known for value in values))


def _appended(before: list[Word], word: Word) -> Word:
    """`X+=more`: nothing stands between."""
    known = _joined(before)
    return word._replace(text=known.text + word.text, known=known.known and word.known)


def _one(words: list[Word], token: Token | None = None) -> Word:
    word = _joined(words)
    return word._replace(raw=token.raw, line=token.line) if token else word


def _after(parts: list[Part], length: int) -> list[Part]:
    """The parts behind the first `length` characters, which are the name of a variable and `=`."""
    first = parts[0]
    return [first._replace(text=first.text[length:]), *parts[1:]]


def _is_array(stream: list[Token], start: int, index: int) -> bool:
    before = stream[index - 1] if index > start else None
    return before is not None and before.raw.endswith("=") and bool(_ASSIGNMENT.match(before.raw))


def _array_end(stream: list[Token], start: int) -> int:
    """The place behind the `)` of an array."""
    for index in range(start, len(stream)):
        if stream[index].parts is None and stream[index].raw == ")":
            return index + 1
    return len(stream)
