"""What a page means, and what is said about a page that means nothing."""

from __future__ import annotations

import math
import re

import pytest

from enginewatch.exposition import NO_LIMITS, Limits, PageError, parse_page
from enginewatch.model import Labels, Metadata, MetricType, Sample

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def one(line: str, content_type: str = TEXT) -> Sample:
    end = "# EOF\n" if content_type == OPENMETRICS else ""
    (sample,) = parse_page(f"{line}\n{end}", content_type).samples
    return sample


def series(name: str, **labels: str) -> Labels:
    return Labels({"__name__": name, **labels})


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("up 1", series("up"), 1),
        ("vllm:num_requests_running 3.0", series("vllm:num_requests_running"), 3),
        ('a{b="c"} 1', series("a", b="c"), 1),
        ('a{b="c",d="e"} 1', series("a", b="c", d="e"), 1),
        ('a{b="c",} 1', series("a", b="c"), 1),
        ('a{b="c" d="e"} 1', series("a", b="c", d="e"), 1),
        ("a{} 1", series("a"), 1),
        ('a{b=""} 1', series("a"), 1),
        ('  \ta \t{ b = "c" , d="e" } \t 1 ', series("a", b="c", d="e"), 1),
        ('a{b="c"}1', series("a", b="c"), 1),
        ('a{b="x y} 2"} 1', series("a", b="x y} 2"), 1),
        (r'a{b="\"\\\n"} 1', series("a", b='"\\\n'), 1),
        (r'a{b="\d"} 1', series("a", b=r"\d"), 1),
        (r'a{b="\\n"} 1', series("a", b=r"\n"), 1),
        ('a{b="ünï\u2028code"} 1', series("a", b="ünï\u2028code"), 1),
        ('{"a.b",x="y"} 1', series("a.b", x="y"), 1),
        ('{x="y","a.b"} 1', series("a.b", x="y"), 1),
        ('{"a.b"} 1', series("a.b"), 1),
        (r'{"a\"b","x.y"="z"} 1', Labels({"__name__": 'a"b', "x.y": "z"}), 1),
        ("a +Inf", series("a"), math.inf),
        ("a -Inf", series("a"), -math.inf),
        ("a infinity", series("a"), math.inf),
        ("a 1e-3", series("a"), 0.001),
        ("a .5", series("a"), 0.5),
        ("a -5.", series("a"), -5),
        ("a 1.7976931348623157e+308", series("a"), 1.7976931348623157e308),
    ],
)
def test_a_sample_line(line: str, labels: Labels, value: float) -> None:
    assert one(line) == Sample(labels, value)


def test_nan_is_a_value() -> None:
    assert math.isnan(one("a NaN").value)


@pytest.mark.parametrize(
    ("line", "content_type", "at"),
    [
        ("a 1 1764531946123", TEXT, 1764531946123),
        ("a 1 -5", TEXT, -5),
        ("a 1 1764531946.123", OPENMETRICS, 1764531946123),
        ('a_bucket{le="1.0"} 1 0.5 # {trace_id="x}"} 0.3 1.5', OPENMETRICS, 500),
        ('a_bucket{le="1.0"} 1 # {trace_id="x"} 0.3', OPENMETRICS, None),
        ("a_total 1 # {} 0.3", OPENMETRICS, None),
    ],
)
def test_timestamps_are_milliseconds_and_exemplars_are_skipped(
    line: str, content_type: str, at: int | None
) -> None:
    assert one(line, content_type).at == at


@pytest.mark.parametrize(
    ("kind", "label", "written", "read"),
    [
        ("histogram", "le", "1", "1.0"),
        ("histogram", "le", "0.005", "0.005"),
        ("histogram", "le", "+Inf", "+Inf"),
        ("histogram", "le", "1000000", "1e+06"),
        ("histogram", "le", "1e6", "1e+06"),
        ("histogram", "le", "123456789", "1.23456789e+08"),
        ("histogram", "le", "0.00001", "1e-05"),
        ("histogram", "le", "-2.50", "-2.5"),
        ("histogram", "le", "0", "0.0"),
        ("histogram", "le", "many", "many"),
        ("summary", "quantile", ".99", "0.99"),
        ("summary", "le", "1", "1"),
        ("counter", "le", "1", "1"),
    ],
)
def test_bucket_bounds_are_spelled_as_prometheus_3_does(
    kind: str, label: str, written: str, read: str
) -> None:
    page = parse_page(f'# TYPE a {kind}\na{{{label}="{written}"}} 1\n')
    assert page.samples[0].labels[label] == read


def test_metadata() -> None:
    page = parse_page(
        '# HELP a_seconds Time \\\\ spent\\nin \\"a\\"\n# TYPE a_seconds histogram\n'
        "# UNIT a_seconds seconds\n# HELP b\n# TYPE b info\na_seconds_count 1\n# EOF\n",
        OPENMETRICS,
    )
    assert page.metadata == {
        "a_seconds": Metadata(MetricType.HISTOGRAM, 'Time \\ spent\nin "a"', "seconds"),
        "b": Metadata(MetricType.GAUGE, "", ""),
    }


def test_comments_and_blank_lines_are_skipped() -> None:
    page = parse_page("\n# a comment\n#\n #HELP x\n\t\n# UNIT a parsecs\na 1\n\n# EOF\nb 2", TEXT)
    assert [s.labels.name for s in page.samples] == ["a", "b"]


def test_a_page_without_samples_is_a_page() -> None:
    assert parse_page("", TEXT).samples == ()
    assert parse_page("# TYPE a counter\n").samples == ()


def test_of_duplicates_the_first_is_kept_and_the_others_counted() -> None:
    page = parse_page('a{x="1",y="2"} 1\nb 5\na{y="2",x="1"} 2\na{x="1", y="2"} 3\n')
    assert page.samples == (Sample(series("a", x="1", y="2"), 1), Sample(series("b"), 5))
    assert page.duplicates == 2


def test_openmetrics_is_recognised_without_a_content_type() -> None:
    page = parse_page('a_total 1 # {t="x"} 1\n# EOF\n')
    assert page.samples == (Sample(series("a_total"), 1),)


BAD_LINES = [
    ("a", "no value after 'a'"),
    ("a ", "no value after 'a'"),
    ("9a 1", "a metric name is expected, found '9a 1'"),
    ("a-b 1", "'-' can't stand in the metric name"),
    ("a one", "'one' is not a number"),
    ("a 1_000", "'1_000' is not a number"),
    ("a 0x10", "is not a number"),
    ("a +NaN", "is not a number"),
    ("a ١", "is not a number"),
    ("a 1\x0b", "is not a number"),
    ("a 1e999", "out of the range"),
    ("a 1\r", "Windows line ends"),
    ("a 1 2 3", "unexpected '3' after the sample"),
    ("a 1 1.5", "'1.5' is not a timestamp"),
    ("a 1 99999999999999999999", "is not a timestamp"),
    ("a 1 # {} 1", "unexpected '# {} 1'"),
    ('a{b="c} 1', "the value of label 'b' is not closed by a quote"),
    ("a{b=c} 1", "not in double quotes"),
    ("a{b} 1", "label 'b' is not followed by ="),
    ('a{b="c"', "the labels are not closed by }"),
    ('a{b="c",,} 1', "a label name is expected, found ',} 1'"),
    ('a{"b} 1', "a quoted text is not closed"),
    ('a{b="c",b="d"} 1', "label 'b' is given twice"),
    ('a{__name__="b"} 1', "'__name__' is not a label name"),
    ('a{"b"} 1', "two metric names, 'a' and \"b\""),
    ('{b="c"} 1', "no metric name"),
    ('{"",b="c"} 1', "no metric name"),
    ("# TYPE a foo", "'foo' is not a metric type (one of counter, gauge,"),
    ("# TYPE a", "'' is not a metric type"),
    ("# HELP 9a x", "HELP is not followed by a metric name: '9a x'"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
def test_an_error_names_the_line_and_the_reason(line: str, reason: str) -> None:
    with pytest.raises(PageError) as caught:
        parse_page(f"ok 1\n{line}\nok2 2\n", TEXT)
    assert caught.value.where == "line 2"
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("a 1\n", "line 1: the OpenMetrics page does not end with # EOF (the page was cut off"),
        ("# EOF\na 1\n", "line 2: a sample after # EOF"),
        ("# EOF\n# EOF\n", "line 2: a second # EOF"),
        ("# UNIT a_s seconds\n# EOF\n", "line 1: unit 'seconds' is not a suffix of the metric"),
        ("a 1 # 5\n# EOF\n", "line 1: an exemplar starts with labels, found '5'"),
        ('a 1 # {"x"} 5\n# EOF\n', "line 1: not an exemplar"),
        ("a 1 # {} 5 6 7\n# EOF\n", "line 1: unexpected '7' after the exemplar"),
    ],
)
def test_openmetrics_errors(page: str, reason: str) -> None:
    with pytest.raises(PageError, match="^" + re.escape(reason)):
        parse_page(page, OPENMETRICS)


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"\n<!DOCTYPE html><html>", "text/html", "HTML"),
        (b"<html>", "", "HTML"),
        (b'[{"iter": 1}]', "application/json", "/prometheus/metrics"),
        (b"[]", "", "JSON"),
        (b' {"detail": "Not Found"}', "", "JSON"),
        (b"{}", "", "JSON"),
        (b"\x0a\x0bmetric", "application/vnd.google.protobuf; proto=x", "protobuf"),
        (b'a 1\nb{x="\xff"} 1\n', TEXT, "line 2: byte 0xff is not valid UTF-8"),
        (b"\xff\xfea\x00", "", "UTF-16"),
        (b"\xef\xbb\xbfa 1", "", "byte order mark"),
    ],
)
def test_what_is_no_metrics_page_is_told_apart(body: bytes, content_type: str, reason: str) -> None:
    with pytest.raises(PageError) as caught:
        parse_page(body, content_type)
    assert reason in str(caught.value)


def test_a_mislabelled_page_is_read_all_the_same() -> None:
    assert len(parse_page("a 1\n", "text/html").samples) == 1
    assert len(parse_page('{"a.b"} 1\n', "application/json").samples) == 1


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(body_size=20), "the page has 46 bytes, over the body_size_limit of 20"),
        (Limits(lines=2), "the page has 3 lines, over the line_limit of 2"),
        (Limits(line_length=9), "line 2: a line of 34 characters, over the line_length_limit of 9"),
        (Limits(samples=2), "line 3: the page has more samples, over the sample_limit of 2"),
        (Limits(labels=2), "line 2: a series with 3 labels, over the label_limit of 2"),
        (Limits(label_name_length=8), "line 2: label name 'longer_na' has 9 characters, over the"),
        (Limits(label_value_length=6), "line 2: the value of label 'b' has 7 characters, over"),
    ],
)
def test_exceeding_a_limit_names_it(limits: Limits, reason: str) -> None:
    page = 'a 1\naa{b="1234567",longer_na="123"} 10\ncccc 1\n'
    with pytest.raises(PageError) as caught:
        parse_page(page, TEXT, limits)
    assert reason in str(caught.value)


def test_a_limit_of_zero_is_none() -> None:
    page = "a 1\n" * 3
    assert parse_page(page, TEXT, NO_LIMITS).duplicates == 2
