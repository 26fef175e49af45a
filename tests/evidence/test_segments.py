"""Inputs are taken apart: pages, documents and exchanges out of what else stands around them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from enginewatch.evidence.segments import (
    Document,
    Exchange,
    LogLine,
    PageText,
    Segment,
    Segmenter,
)


def split(text: str) -> list[Segment]:
    return list(Segmenter().split(text.encode().split(b"\n")))


def test_log_lines_keep_their_numbers() -> None:
    assert split("a\nb") == [LogLine(1, b"a"), LogLine(2, b"b")]


def test_scrapes_make_a_series() -> None:
    first, second = split('# SCRAPE t=0\na 1\n# SCRAPE t=12.5 instance="h:1"\n# TYPE a gauge\na 2')
    assert isinstance(first, PageText)
    assert isinstance(second, PageText)
    assert (first.at, first.lines) == (0, (b"a 1",))
    assert (second.at, second.labels["instance"], second.number) == (12_500, "h:1", 3)


def test_a_page_needs_no_mark() -> None:
    log, page, rest = split('up\n# TYPE a counter\na{b="c"} 1\na{b="d"} 2e3\n\nthe end')
    assert isinstance(log, LogLine)
    assert isinstance(page, PageText)
    assert page.lines == (b"# TYPE a counter", b'a{b="c"} 1', b'a{b="d"} 2e3', b"")
    assert isinstance(rest, LogLine)


def test_a_failed_scrape_is_a_page_that_is_none() -> None:
    (page,) = split('# SCRAPE t=5 instance="a:1" error="connection refused"')
    assert isinstance(page, PageText)
    assert (page.error, page.lines) == ("connection refused", ())


def test_a_recording_is_read_as_pages() -> None:
    text = (
        '# enginewatch recording 1\n# TARGET instance="a:1" job="v"\n'
        '# SCRAPE t=5 instance="a:1" status=200\na 1\n# NOTE t=6 text="x"\n# SCRAPE t=10\na 2\n'
    )
    assert [page.at for page in split(text) if isinstance(page, PageText)] == [5_000, 10_000]


def test_documents_on_a_line_and_over_lines() -> None:
    one, over = split('{"a": 1}\n{\n  "b": [1,\n    "}{"]\n}')
    assert isinstance(one, Document)
    assert isinstance(over, Document)
    assert (one.value, over.value, over.number) == ({"a": 1}, {"b": [1, "}{"]}, 2)


def test_what_only_begins_like_a_document_is_log() -> None:
    found = split("{\nnot json\n}\nx")
    assert [line.raw for line in found if isinstance(line, LogLine)] == [
        b"{",
        b"not json",
        b"}",
        b"x",
    ]


def test_brackets_of_logs_are_no_documents() -> None:
    assert all(isinstance(each, LogLine) for each in split("[2026-01-02 x] a\n[rank0]: b\n{x} y"))


def test_an_answer_belongs_to_its_request() -> None:
    document, page = split("# GET /metrics\n[]\n# GET /prometheus/metrics\na_total 3")
    assert isinstance(document, Document)
    assert (document.path, document.value) == ("/metrics", [])
    assert isinstance(page, PageText)
    assert page.lines == (b"a_total 3",)


def test_statuses_of_exchanges() -> None:
    text = (
        "$ curl -s http://h:8000/health -> 200\n"
        "> GET /v2/models/m/ready HTTP/1.1\n< HTTP/1.1 400 Bad Request\n"
        "# GET /v1/models => 503\n"
    )
    assert [each for each in split(text) if isinstance(each, Exchange)] == [
        Exchange(1, "/health", 200),
        Exchange(3, "/v2/models/m/ready", 400),
        Exchange(4, "/v1/models", 503),
    ]


def test_an_answer_behind_a_client_s_words() -> None:
    (found,) = split('12:00 got \x1b[32m{"choices": [{"text": "x"}]}\x1b[0m')
    assert isinstance(found, Document)
    assert found.value == {"choices": [{"text": "x"}]}


def test_streamed_answers_are_documents() -> None:
    (found,) = split('data: {"choices":[]}')
    assert isinstance(found, Document)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b" ")),
            st.sampled_from(
                [b"# SCRAPE t=0", b'a{b="c"} 1', b"{", b"}", b'{"a": 1}', b"# GET /x", b"[", b""]
            ),
        ),
        max_size=20,
    )
)
def test_no_line_is_lost_or_told_twice(lines: list[bytes]) -> None:
    numbers: list[int] = []
    for segment in Segmenter().split(lines):
        if isinstance(segment, LogLine):
            assert segment.raw == lines[segment.number - 1]
            numbers.append(segment.number)
    assert len(set(numbers)) == len(numbers)
    assert all(1 <= number <= len(lines) for number in numbers)
