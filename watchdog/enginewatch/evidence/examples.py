"""The examples in signature files are their tests: the whole set must find what each says."""

from __future__ import annotations

from collections.abc import Iterator

from enginewatch.alerting.errors import RuleError
from enginewatch.evidence.pack import SignaturePack
from enginewatch.evidence.reader import LogReader, Match
from enginewatch.evidence.signatures import Example, Signature, SignatureSet


def check_examples(pack: SignaturePack) -> list[RuleError]:
    """A problem for each example that the pack reads otherwise than it says."""
    return [
        RuleError(
            f"signature {signature.id!r}: example: {what}",
            where=f"{signature.file}:{example.line}",
        )
        for signature in pack.signatures
        for example in signature.examples
        for what in _faults(signature, example, pack.signatures)
    ]


def _faults(signature: Signature, example: Example, signatures: SignatureSet) -> Iterator[str]:
    if signature.mutes:
        if (signature.search(example.text.encode()) is None) is not (example.verdict is None):
            yield "is not read as it says"
        return
    reader = LogReader(signatures)
    matches: list[Match] = []
    for line in example.text.split("\n"):
        matches += reader.feed(line)
    matches += reader.finish()
    own = [match for match in matches if match.signature is signature and match.case is not None]
    if example.verdict is None:
        if own:
            yield "finds a line in which it should find nothing"
        return
    if not own:
        yield "finds nothing"
        return
    verdicts = sorted({match.verdict for match in own})
    if example.verdict not in verdicts:
        yield f"finds {' and '.join(v or 'a fact' for v in verdicts)}"
    for name, wanted in example.fields.items():
        found = [match.fields[name] for match in own if name in match.fields]
        if wanted not in found:
            yield f"field {name!r} is {found or 'missing'}, not {wanted!r}"
