"""A reader that remembers gives the answers of a parser that does not."""

from __future__ import annotations

import gc
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from enginewatch.exposition import Limits, Page, PageCache, PageError, PageReader, parse_page
from enginewatch.exposition.numbers import openmetrics_float, parse_value, parse_values
from enginewatch.exposition.table import SeriesTable
from enginewatch.model import Labels, Metadata, Millis, quote

TEXT = "text/plain; version=0.0.4"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

Answer = tuple[list[tuple[Labels, bytes, Millis | None]], dict[str, Metadata], int] | str


def bits(value: float) -> bytes:
    return b"nan" if value != value else struct.pack("<d", value)


def strictly(body: bytes, content_type: str, limits: Limits) -> Answer:
    try:
        page: Page = parse_page(body, content_type, limits)
    except PageError as failure:
        return str(failure)
    samples = [(s.labels, bits(s.value), s.at) for s in page.samples]
    return samples, dict(page.metadata), page.duplicates


def remembering(reader: PageReader, body: bytes, content_type: str) -> Answer:
    try:
        layout, values, times = reader.read(body, content_type)
    except PageError as failure:
        return str(failure)
    assert layout.names == tuple(layout.series(i)["__name__"] for i in range(len(layout)))
    at = times or [None] * len(layout)
    samples = [
        (Labels(layout.series(i)), bits(float(value)), at[i])
        for i, value in zip(range(len(layout)), values, strict=True)
    ]
    return samples, dict(layout.metadata), layout.duplicates


# Lines that are nearly alike, so that a page often differs from the last one in a detail
# that a careless cache would miss.
SERIES = st.sampled_from(
    [
        "a",
        "ab",
        "foo",
        "foo5",
        "nan",
        "inf",
        "a_bucket",
        "a{}",
        "",
        '{"a"}',
        '{"é.b",x="1"}',
        'a{x="1"}',
        'a{x="1" }',
        'a{x="1 2"}',
        'a{x="1',
        'a_bucket{le="1"}',
        'a_bucket{le="1.0"}',
    ]
)
BLANK = st.sampled_from([" ", " ", " ", "", "  ", "\t"])
VALUE = st.sampled_from(
    [
        "1",
        "1.0",
        "-0",
        "NaN",
        "+Inf",
        "Inf",
        "-inf",
        "nan",
        "1e999",
        "-1e999",
        "1_0",
        "5 5",
        "",
        "1 # {} 1",
        "infinity",
        "٣",
        "1\xa0",
        "1\x0c",
        "1\r",
        "+NaN",
        "1e5",
        "0x1",
        "+-1",
        "5{",
    ]
)
COMMENT = st.sampled_from(
    [
        "",
        " ",
        "# EOF",
        "# TYPE a histogram",
        "# TYPE a counter",
        "# TYPE a summary",
        "#",
        "# HELP a x",
        "# HELP a y",
        "# TYPE a bad",
    ]
)
SAMPLE = st.tuples(SERIES, BLANK, VALUE, st.sampled_from(["", "", "", " "])).map("".join)
LINE = st.one_of(SAMPLE, SAMPLE, COMMENT)
PAGE = st.lists(LINE, max_size=6).map("\n".join)


@settings(deadline=None, max_examples=300)
@given(pages=st.lists(PAGE, min_size=1, max_size=4), openmetrics=st.booleans())
def test_any_pages(pages: list[str], openmetrics: bool) -> None:
    limits = Limits(samples=5, line_length=24)
    kind = OPENMETRICS if openmetrics else TEXT
    cache = PageCache(limits)
    one, other = PageReader(cache), PageReader(cache)
    for text in [*pages, *pages]:
        body = text.encode()
        expected = strictly(body, kind, limits)
        assert remembering(one, body, kind) == expected
        assert remembering(other, body, kind) == expected


@settings(deadline=None, max_examples=300)
@given(
    lines=st.lists(
        st.tuples(SERIES, VALUE, VALUE, BLANK), min_size=1, max_size=5, unique_by=lambda x: x[0]
    )
)
def test_only_the_values_change(lines: list[tuple[str, str, str, str]]) -> None:
    limits = Limits()
    reader = PageReader()
    before = "".join(f"{series} {value}\n" for series, value, _, _ in lines).encode()
    after = "".join(f"{series}{blank}{value}\n" for series, _, value, blank in lines).encode()
    for body in (before, after, before):
        assert remembering(reader, body, TEXT) == strictly(body, TEXT, limits)


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(st.binary(max_size=60), PAGE.map(str.encode)),
    st.sampled_from([TEXT, OPENMETRICS, ""]),
)
def test_no_other_exception_than_page_error(body: bytes, content_type: str) -> None:
    strictly(body, content_type, Limits())


LABEL_VALUE = st.text(st.characters(codec="utf-8"), max_size=8)
NAME = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,6}", fullmatch=True)
LABEL_NAME = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)


def rendered(name: str, labels: dict[str, str], value: float) -> str:
    return f"{name}{{{','.join(f'{k}={quote(v)}' for k, v in labels.items())}}} {value!r}\n"


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(NAME, st.dictionaries(LABEL_NAME, LABEL_VALUE, max_size=3), st.floats()),
        min_size=1,
        max_size=5,
    )
)
def test_prometheus_client_reads_the_same(series: list[tuple[str, dict[str, str], float]]) -> None:
    text = "".join(rendered(*one) for one in series)
    theirs = {
        (Labels({"__name__": s.name, **s.labels})): bits(s.value)
        for family in reversed(list(text_string_to_metric_families(text)))
        for s in reversed(family.samples)
    }
    ours = parse_page(text, TEXT)
    assert {s.labels: bits(s.value) for s in ours.samples} == theirs


@settings(deadline=None, max_examples=200)
@given(st.lists(VALUE, max_size=4))
def test_many_values_at_once(texts: list[str]) -> None:
    found = parse_values(texts, "".join(texts))
    if found is not None:
        assert [bits(float(v)) for v in found] == [bits(parse_value(text)) for text in texts]


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_a_rewritten_bound_is_the_same_number(value: float) -> None:
    assert float(openmetrics_float(value)) == value


def vllm_page(value: float = 1.0, model: str = "llama") -> bytes:
    lines = [f'vllm:thing_{n}{{engine="0",model_name="{model}"}} {value}' for n in range(20)]
    return ("# TYPE vllm:thing_0 gauge\n" + "\n".join(lines) + "\n").encode()


def test_a_page_seen_before_keeps_its_layout() -> None:
    reader = PageReader()
    first = reader.read(vllm_page(1))
    second = reader.read(vllm_page(22.5))
    assert second.layout is first.layout
    assert set(second.values) == {22.5}


def test_replicas_share_a_layout_and_forget_it_with_the_last() -> None:
    cache = PageCache()
    readers = [PageReader(cache) for _ in range(3)]
    layouts = {id(reader.read(vllm_page(n)).layout) for n, reader in enumerate(readers)}
    assert len(layouts) == 1
    signatures = len(cache)
    del readers
    gc.collect()
    assert (signatures, len(cache)) == (1, 0)


def test_pages_that_alternate_keep_their_layouts() -> None:
    reader = PageReader()
    seen = [reader.read(vllm_page(n, f"m{n % 3}")).layout for n in range(9)]
    assert len(set(map(id, seen))) == 3


def test_duplicates_and_nan_stay_on_the_fast_path() -> None:
    reader = PageReader()
    first = reader.read(b"a 1\nb 2\na 3\nc NaN\nd +Inf\n")
    second = reader.read(b"a 5\nb 6\na 7\nc 8\nd -Inf\n")
    assert second.layout is first.layout
    assert list(second.values) == [5, 6, 8, float("-inf")]
    assert (second.layout.samples, second.layout.duplicates) == (5, 1)


def test_ever_new_labels_do_not_grow_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enginewatch.exposition.table._GENERATION", 1_000)
    cache = PageCache()
    reader = PageReader(cache)
    sizes = []
    for n in range(200):
        reader.read("".join(f'a{{x="{n}.{i}"}} 1\n' for i in range(10)).encode())
        sizes.append(len(cache.table))
    assert max(sizes) < 300
    assert len(cache) <= 4


def test_what_is_used_survives_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enginewatch.exposition.table._GENERATION", 10)
    table = SeriesTable(Limits())
    table.add("", "kept ", "kept", ())
    for n in range(100):
        table.add("", f"n{n} ", f"n{n}", ())
        assert table.get("", "kept ") is not None
    assert table.get("", "n1 ") is None
