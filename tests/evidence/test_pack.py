"""The shipped pack, and what the loader says about files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evidence.packs import load, signatures

from enginewatch.evidence.documents import load_kinds
from enginewatch.evidence.errors import SignatureError
from enginewatch.evidence.examples import check_examples
from enginewatch.evidence.fields import COUNT
from enginewatch.evidence.pack import load_pack, load_verdicts, shipped_pack
from enginewatch.evidence.verdict import BENIGN
from enginewatch.rulepack import rules_path


def test_the_shipped_examples_are_found_as_they_say() -> None:
    assert [str(problem) for problem in check_examples(shipped_pack())] == []


def test_every_verdict_has_its_place_and_advice() -> None:
    verdicts = shipped_pack().verdicts
    assert list(verdicts)[-1] == BENIGN
    for rule in verdicts.values():
        assert rule.advice
        assert rule.name not in rule.explains


def test_every_failure_says_what_to_do() -> None:
    pack = shipped_pack()
    for signature in pack.signatures:
        for case in signature.cases:
            if case.verdict:
                assert case.advice or pack.verdicts[case.verdict].advice, signature.id


def test_every_signature_has_a_positive_example() -> None:
    for signature in shipped_pack().signatures:
        assert any(example.verdict is not None for example in signature.examples), signature.id


def test_the_set_finds_what_each_pattern_finds() -> None:
    """The prefilter may not lose what a pattern alone would have found."""
    pack = shipped_pack()
    lines = {
        line.encode()
        for signature in pack.signatures
        for example in signature.examples
        for line in example.text.split("\n")
    }
    for line in lines:
        alone = {one.id for one in pack.signatures if one.search(line) is not None}
        found = pack.signatures.may_match(line) or ()
        assert {one.id for one in pack.signatures.owners(found)} == alone


def test_xids_are_rows_with_sources() -> None:
    (signature,) = [one for one in shipped_pack().signatures if one.id == "xid"]
    assert signature.lookup is not None
    rows = signature.lookup.rows
    assert rows["79"]["class"] == "hardware"
    assert rows["79"]["page"] is True
    assert all(rows[xid]["page"] is False for xid in ("13", "31", "43", "45"))
    heaviest = max(rows.values(), key=lambda row: float(str(row["weight"])))
    assert heaviest["xid"] == 79
    # 45 follows another, 154 reports an action: neither leads a burst.
    lightest = sorted(rows.values(), key=lambda row: float(str(row["weight"])))[:2]
    assert {row["xid"] for row in lightest} == {45, 154}


def test_documents_are_told_by_their_keys() -> None:
    kinds = {kind.id: kind for kind in load_kinds(rules_path())}
    assert kinds["checkpoint-config"].fits({"quantization_config": {"quant_method": "awq"}})
    assert not kinds["checkpoint-config"].fits({"quantization_config": {}})
    assert not kinds["context"].fits({"anything": 1})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pattern: 'a(b'", "own.yml:3:15: signature 's1': pattern: not a valid RE2"),
        ("pattern: 'x(?=y)'", "own.yml:3:16: signature 's1': pattern: not a valid RE2"),
        ("pattern: 'x(?=y)'", "invalid perl operator: (?= (RE2 has no look-around"),
        ("pattern: ''", "signature 's1': pattern is empty"),
        ("pattern: a\npatterns: [b]", "needs one of `pattern` and `patterns`"),
        ("pattern: '(?P<n>1)'", "group 'n' has no type (name it under `fields`)"),
        ("pattern: a\nfields: {n: int}", "field 'n' is in no pattern"),
        ("pattern: '(?P<n>1)'\nfields: {n: itn}", "type: 'itn' is not known (did you mean 'int'?)"),
        ("pattern: a\nfields: {n: {pattern: b}}", "the pattern must have one group, not 0"),
        ("pattern: a\nfields: {n: {type: count}}", "a count needs a pattern of its own"),
        ("pattern: a\nverdict: cuda_om", "'cuda_om' is not known (did you mean 'cuda_oom'?)"),
        ("pattern: a\nverdict: cuda_oom", "a verdict needs a severity"),
        ("pattern: a\nverdict: cuda_oom\nseverity: page", "(one of fatal, degraded, warn, info)"),
        ("pattern: a\nnear: {seen: no, after: 1m}", "'no' is neither a signature nor a verdict"),
        ("pattern: a\nnear: {seen: s1}", "needs one of `before` and `after`"),
        ("pattern: a\nnear: {seen: s1, after: soon}", "not a duration"),
        ("pattern: a\nabsent: {after: 1m}", "must say which signatures are `seen`"),
        ("pattern: a\nwhere: 'x +'", "where: not an expression"),
        ("pattern: a\nwhere: 'open(x)'", "function: 'open' is not known"),
        ("pattern: a\nderived: {x: '=a.b'}", "Attribute is not understood"),
        ("pattern: a\nphases: [start]", "'start' is none of the known ones"),
        ("pattern: a\ncases: []\nverdict: benign", "'verdict' beside `cases`"),
        ("pattern: a\nlookup: {table: xid, by: n}", "table: 'xid' is not known"),
        ("pattern: a\nseries: [{name: m, value: n}]", "field: 'n' is not known"),
        ("pattern: a\nmutes: perhaps", "must be true or false"),
        ("pattern: a\nthin: 1x", "not a duration"),
        ("pattern: a\nfeeds: [hang]", "'hang' is not known"),
        ("patern: a\npattern: b", "unknown key 'patern' (did you mean 'pattern'?)"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(SignatureError) as failure:
        signatures(tmp_path, body)
    assert message in str(failure.value)
    assert all("own.yml:" in line for line in str(failure.value).splitlines())


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SignatureError) as failure:
        signatures(tmp_path, "pattern: '('", "pattern: ')'\nfeeds: x")
    assert len(failure.value.problems) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("signatures: 1", "must be a list"),
        ("sigs: []", "unknown key 'sigs'"),
        ("signatures:\n  - {pattern: a}", "signature 1 has no 'id'"),
        ("signatures:\n  - {id: a, about: x, pattern: a}", "gives no source"),
        ("signatures:\n  - {id: a, about: x, pattern: a, source: x}", "has no examples"),
        ("a: [", "not YAML"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SignatureError) as failure:
        load(tmp_path, text)
    assert message in str(failure.value)


def test_an_id_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="signature 'a' is there already"):
        signatures(tmp_path, "id: a\npattern: x", "id: a\npattern: y")


def test_an_example_that_is_read_otherwise_is_told(tmp_path: Path) -> None:
    pack = load(
        tmp_path,
        """
signatures:
  - id: a
    about: x
    pattern: 'ran out of (?P<what>\\w+)'
    fields: {what: string}
    verdict: cuda_oom
    severity: fatal
    source: test
    examples:
      - {finds: cuda_oom, text: ran out of memory, fields: {what: patience}}
      - {finds: nothing, text: ran out of luck}
      - {finds: engine_dead, text: ran out of air}
      - {finds: cuda_oom, text: ran away}
""",
    )
    told = [str(problem) for problem in check_examples(pack)]
    assert [line.partition("example: ")[2] for line in told] == [
        "field 'what' is ['memory'], not 'patience'",
        "finds a line in which it should find nothing",
        "finds cuda_oom",
        "finds nothing",
    ]


def test_tables_are_as_strict(tmp_path: Path) -> None:
    (tmp_path / "compat").mkdir()
    (tmp_path / "signatures").mkdir()
    shipped = rules_path() / "signatures" / "verdicts.yml"
    (tmp_path / "signatures" / "verdicts.yml").write_text(shipped.read_text())
    (tmp_path / "compat" / "xids.yml").write_text(
        "key: xid\nsources: {N: here}\ncolumns: {xid: int, class: [a, b]}\n"
        "rows:\n  - {xid: 1, class: c, source: N}\n  - {xid: x, class: a, source: M}\n"
        "  - {xid: 1, class: a, source: N, more: 1}\n  - {class: a, source: N}\n"
    )
    with pytest.raises(SignatureError) as failure:
        load_pack(tmp_path)
    told = str(failure.value)
    for what in (
        "class: 'c' is not known",
        "'x' is not of type int",
        "source: 'M' is not known",
        "xid 1 is there already",
        "unknown key 'more'",
        "row 4 has no 'xid'",
    ):
        assert what in told
    assert load_verdicts(tmp_path)


def test_counts_are_a_type_of_their_own() -> None:
    counting = [
        name
        for signature in shipped_pack().signatures
        for name, one in signature.fields.items()
        if one.type == COUNT
    ]
    assert counting == ["processes"]
