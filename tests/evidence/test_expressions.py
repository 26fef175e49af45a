from __future__ import annotations

import pytest

from enginewatch.evidence.expressions import ExpressionError, parse
from enginewatch.evidence.fields import TYPES, Value, mebibytes, size_in_bytes
from enginewatch.evidence.functions import PURE

FIELDS: dict[str, Value] = {
    "tried": "1.48 GiB",
    "reserved": "1.55 GiB",
    "done": 4,
    "total": 9,
    "each": 28.05,
    "code": -9,
    "arch": "sm_120",
    "archs": "sm_80 sm_90 sm_75",
    "empty": "",
    "flag": True,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round((total - done) * each)", 140),
        ("bytes(reserved) > bytes(tried)", True),
        ("mib(tried)", 1515.5),
        ("signal_name(code)", "SIGKILL"),
        ("signal_name(137)", "SIGKILL"),
        ("signal_name(3000)", None),
        ("capability(arch)", "12.0"),
        ("highest(archs)", "sm_90"),
        ('"a" if done > 3 else "b"', "a"),
        ("code in [-9, 137]", True),
        ("flag and not done == 9", True),
        ("first_known(missing, total)", 9),
        ("known(missing)", False),
        ("missing + 1", None),
        ("missing > 1 or done > 1", None),
        ("total / 0", None),
        ('"x" * total', None),
        ('done > "x"', None),
        ("-done", -4),
        ("mib(arch)", None),
        ('"sm_" + text(90)', "sm_90"),
    ],
)
def test_expressions_compute_over_fields(text: str, value: Value) -> None:
    assert parse(text).evaluate(FIELDS, PURE) == value


@pytest.mark.parametrize(
    "text",
    [
        "done.real",
        "lambda: 1",
        "__import__('os')()",
        "done[0]",
        "f(x=1)",
        "[x for x in total]",
        "done ** 9",
        "1 < done < 9",
        "b'x'",
        "",
        "(",
        "x" * 501,
        "(" * 300,
    ],
)
def test_what_is_more_than_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)


def test_an_expression_tells_what_it_uses() -> None:
    found = parse('round(total - count("x"))')
    assert (found.names, found.calls) == ({"total"}, {"round", "count"})


@pytest.mark.parametrize(
    ("text", "mib"),
    [("58.81 MiB", 58.81), ("39.56 GiB", 40509.4), ("448.00 KiB", 0.4), ("1024", 0.0), ("x", None)],
)
def test_sizes_are_told_in_mebibytes(text: str, mib: float | None) -> None:
    assert mebibytes(text) == mib


def test_sizes_compare_across_units() -> None:
    assert (size_in_bytes("1.55 GiB") or 0) > (size_in_bytes("312.00 MiB") or 0)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "1,024", 1024),
        ("int", "0x1f", 31),
        ("float", "0.5", 0.5),
        ("bytes", " 96.00 MiB", "96.00 MiB"),
        ("version", "9.1.0.4", "9.1.0.4"),
        ("bool", "False", False),
        ("string", " text ", "text"),
    ],
)
def test_types_read_texts(kind: str, text: str, value: Value) -> None:
    assert TYPES[kind](text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [("int", "x"), ("float", "nan"), ("bytes", "a lot"), ("bool", "maybe"), ("version", "v")],
)
def test_types_refuse_what_they_are_not(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        TYPES[kind](text)
