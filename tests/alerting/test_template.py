"""Templates: what is refused at load and in which words, and what an alert's data can't break.

That the texts are Prometheus' own is in test_template_promtool.py.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enginewatch.alerting.errors import RuleError
from enginewatch.alerting.template import Template, TemplateError
from enginewatch.alerting.template.functions import FUNCTIONS, UNSUPPORTED
from enginewatch.errors import EnginewatchError
from enginewatch.model import Labels

UP = Labels({"__name__": "up", "instance": "a:1", "job": "vllm"})


def expand(text: str, value: float = 1.0, **known: object) -> str:
    return Template.compile(text).expand(UP, value, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("{{ $value", "1:10", "action without an end"),
        ("{{ $value }", "1:11", "stray '}' in an action"),
        ("a\nb {{ 'ab }}", "2:6", "text without a closing quote"),
        ("{{ 'ab' }}", "1:4", "'ab' is not one character"),
        (r'{{ "\q" }}', "1:4", r"unknown escape \q"),
        ("{{/* x }}", "1:3", "comment without an end"),
        ("{{/* x */ }}", "1:8", "comment ends before the closing }}"),
        ("{{ }}", "1:4", "}} where a value should be"),
        ("{{ if }}x{{ end }}", "1:7", "}} where the condition of if should be"),
        ("{{ $value | }}", "1:13", "}} where a function should be"),
        ("{{ ($value }}", "1:12", "}} where ) should be"),
        ("{{ $value) }}", "1:10", ") where }} should be"),
        ("{{ if true }}x", "1:4", "if without an end"),
        ("x{{ end }}", "1:5", "end without an if, with or range"),
        ("{{ else }}", "1:4", "else without an if, with or range"),
        ("{{ if true }}{{ else }}{{ else }}{{ end }}", "1:27", "a second else"),
        ("{{ with 1 }}{{ else if 2 }}{{ end }}", "1:21", "else if is not supported"),
        ("{{ $x }}", "1:4", "undefined variable $x"),
        ("{{ $x = 1 }}", "1:4", "undefined variable $x"),
        ("{{ $x := $x }}", "1:10", "undefined variable $x"),
        ("{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}", "1:39", "undefined variable $x"),
        ("{{ $x, $y := 1 }}", "1:8", "only range declares two variables"),
        ("{{ range $value = query `up` }}{{ end }}", "1:17", "range with = is not supported"),
        ("{{ ($x := 1) }}", "1:4", "a variable is set inside parentheses"),
        ("{{ $x=1 }}", "1:6", "stray '=' after $x"),
        ("{{ 1`a` }}", "1:5", "only a function can take arguments"),
        ("{{ print 1`a` }}", "1:11", "no blank before"),
        ("{{ $value 2 }}", "1:11", "only a function can take arguments"),
        ("{{ 1 | $value }}", "1:8", "only a function can take a value from |"),
        ("{{ nil }}", "1:4", "nil is not a value"),
        ("{{ `a`.b }}", "1:7", "a literal has no fields"),
        ("{{ 089 }}", "1:4", "bad number 089"),
        ("{{ 2i }}", "1:4", "imaginary number 2i is not supported"),
        ("{{ 99999999999999999999 }}", "1:4", "does not fit an int"),
        ("{{ humanise $value }}", "1:4", "there is no function humanise"),
        ("{{ define `x` }}{{ end }}", "1:4", "define is not supported"),
        ("{{ template `x` }}", "1:4", "template is not supported"),
        ("{{ block `x` . }}{{ end }}", "1:4", "block is not supported"),
        ("{{ range query `up` }}{{ break }}{{ end }}", "1:26", "break is not supported"),
        ("{{ .Lables.job }}", "1:4", "no field .Lables in an alert"),
        ("{{ $labels.a.b }}", "1:4", "no field .b in a string"),
        ("{{ $value.x }}", "1:4", "no field .x in a float64"),
        ("{{ range $value }}{{ end }}", "1:10", "range can't go over a float64"),
        ("{{ humanize }}", "1:4", "humanize takes 1 argument, not 0"),
        ("{{ $value | humanize 1 }}", "1:13", "humanize takes 1 argument, not 2"),
        ("{{ printf }}", "1:4", "printf takes 1 or more arguments, not 0"),
        ("{{ toUpper $value }}", "1:12", "toUpper takes a string, not a float64"),
        ("{{ query `up` | value }}", "1:4", "value takes a *template.sample"),
        ("{{ if gt $value 5 }}{{ end }}", "1:17", "gt can't compare float64 with int"),
        ("{{ eq $labels `x` }}", "1:7", "a map[string]string can't be compared"),
        ("{{ eq 1 }}", "1:4", "eq takes 2 or more arguments, not 1"),
        ("{{ match `a(` $labels.job }}", "1:10", "not a valid RE2 regular expression"),
        ("{{ match `(?=a)` $labels.job }}", "1:10", "not a valid RE2 regular expression"),
        ("{{ printf `%[2]d` 1 2 }}", "1:11", "%[2]d is not supported in a format"),
        ("{{ printf `a %#v` 1 }}", "1:11", "%#v is not supported in a format"),
        ("{{ if 1 }}" * 60, "1:504", "nested deeper than 50"),
        ("{{ " + "(" * 60 + "1" + ")" * 60 + " }}", "1:54", "nested deeper than 50"),
        ("{{ 1" + " | print" * 60 + " }}", "1:408", "nested deeper than 50"),
    ],
)
def test_refused_at_load_with_place_and_reason(text: str, place: str, what: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template.compile(text, "rules.yml:7: summary")
    assert str(caught.value).startswith(f"rules.yml:7: summary: {place}: ")
    assert what in caught.value.what
    assert isinstance(caught.value, RuleError)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_functions_left_out_are_refused_by_name_with_what_to_do_instead(name: str) -> None:
    with pytest.raises(TemplateError, match=f"function {name} is not supported") as caught:
        Template.compile(f"{{{{ {name} 1 }}}}")
    assert caught.value.hint


def test_what_can_never_work_is_refused_also_where_it_may_never_be_reached() -> None:
    with pytest.raises(TemplateError):
        Template.compile("{{ if false }}{{ toUpper 1 }}{{ end }}")


def test_a_variable_that_is_assigned_anew_may_hold_anything() -> None:
    text = "{{ $x := 1 }}{{ if true }}{{ $x = `a` }}{{ end }}{{ toUpper $x }}"
    assert expand(text) == "A"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ query `up` | first }}", "1:17: error calling first: first() called on vector with"),
        ("a\n {{ humanize $labels.job }}", "2:5: error calling humanize: strconv.ParseFloat"),
        ("{{ query `boom` }}", "1:4: error calling query: boom"),
        ("{{ printf $labels.format 1 }}", "printf: %[1]d is not supported"),
        ("{{ printf `%999999d%999999d` 1 2 }}", "more than 1048576 characters"),
    ],
)
def test_errors_at_run_time_are_text(text: str, reason: str) -> None:
    def query(promql: str) -> list[tuple[Labels, float]]:
        if promql == "boom":
            raise EnginewatchError("boom")
        return []

    template = Template.compile(text)
    shown = template.expand({"job": "vllm", "format": "%[1]d"}, 1.0, query=query)
    assert shown.startswith("<error expanding template: ")
    assert reason in shown


def test_without_a_query_function_queries_fail_as_text() -> None:
    assert "no queries can be made here: up" in expand("{{ query `up` }}")


def test_output_is_bounded() -> None:
    many = [(UP, 1.0)] * 300
    loops = "{{ range query `x` }}{{ range query `x` }}long enough{{ end }}{{ end }}{{ end }}"
    text = "{{ range query `x` }}" + loops
    assert "more than 1048576 characters" in expand(text, query=lambda _: many)


def test_the_external_url_in_all_its_forms() -> None:
    text = "{{ externalURL }} {{ pathPrefix }} {{ $externalURL }} {{ .ExternalURL }}"
    url = "https://w.example/watch"
    assert expand(text, external_url=url) == f"{url} /watch {url} {url}"


def test_an_external_url_that_is_none_is_text_too() -> None:
    shown = expand("{{ pathPrefix }}", external_url="http://[")
    assert shown.startswith("<error expanding template: 1:4: error calling pathPrefix: ")


HOSTILE = "{{ query `x` }} %s <script> *bold* \u202e \x00 $labels.job"


@pytest.mark.parametrize(
    "text",
    [
        "{{ $labels.x }}",
        "{{ .Labels.x }}",
        "{{ index $labels `x` }}",
        "{{ printf `%s` $labels.x }}",
    ],
)
def test_label_values_are_text_never_template(text: str) -> None:
    assert Template.compile(text).expand({"x": HOSTILE}, 1.0) == HOSTILE


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("{{ $value }}", True),
        ("{{ .Value | humanize }}", True),
        ("{{ $.Value }}", True),
        ("{{ . }}", True),
        ("{{ printf `%v` $ }}", True),
        ("{{ if gt .Value 1.0 }}high{{ else }}low{{ end }}", True),
        ("{{ $v := $value }}{{ $v }}", True),
        ("{{ query `up` | first | value }}", True),
        ("{{ (query `up` | first).Value }}", True),
        ("{{ range query `up` }}{{ .Value }}{{ end }}", True),
        ("{{ with $labels.job }}{{ . }}{{ else }}{{ . }}{{ end }}", True),
        ("page", False),
        ("{{ $labels.Value }}", False),
        ("{{ .Labels.Value }}", False),
        ("{{ $.Labels.job }}", False),
        ("{{ with $labels.job }}{{ . }}{{ end }}", False),
        ("{{ query `up` | first | label `job` }}", False),
    ],
)
def test_uses_value(text: str, changes: bool) -> None:
    assert Template.compile(text).uses_value() is changes


def test_queries_as_far_as_they_are_written_out() -> None:
    text = (
        "{{ range query `up == 0` }}{{ end }}"
        "{{ query (printf `a{i=%q} > %d or b{j='%s'}` $labels.i 1 $labels.j) | first | value }}"
        "{{ if true }}{{ $labels.i | query | len }}{{ end }}"
    )
    assert Template.compile(text).queries() == ["up == 0", "a{i=\"x\"} > 0 or b{j='x'}"]


def test_constant_templates_are_known() -> None:
    assert Template.compile("page").is_constant
    assert Template.compile("").is_constant
    assert not Template.compile("{{ $labels.job }}").is_constant


PIECES = st.sampled_from(
    [
        *(f" {name} " for name in FUNCTIONS),
        *("{{", "}}", "{{- ", " -}}", "{{/*", "*/}}", " | ", "(", ")", ",", ":=", "=", ".", " "),
        *(" if ", " else ", " end ", " range ", " with ", "{{ end }}", "{{ else }}"),
        *("$labels", "$value", "$x", ".Labels.job", ".Value", "$", "$i, $e := ", "$x := "),
        *("`%d %s`", "`up`", '"a\\n"', "'c'", "1", "-2.5e3", "0x1F", "true", "nil", "\n", "{", "}"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=15).map("".join)
ACTIONS = st.lists(PIECES, max_size=8).map(lambda pieces: "{{ " + "".join(pieces) + " }}")
OPERANDS = (
    *("$labels.a", "$value", "`%5.2q%*d%x`", "`up`", "nil", "$", "'a'", "1e300", "-7", "true"),
    *("(query `up`)", "(query `up` | first)", "(args 1 $labels.a)", "(index (args 1) `arg0`)"),
)
CALLS = st.builds(
    lambda name, args: "{{ " + " ".join([name, *args]) + " }}",
    st.sampled_from(sorted(FUNCTIONS)),
    st.lists(st.sampled_from(OPERANDS), max_size=4),
)


@settings(deadline=None, max_examples=400)
@given(
    text=TEXTS | ACTIONS | CALLS,
    label=st.text(max_size=8) | st.just("\ud800"),
    value=st.floats(),
)
@example(text="{{ humanizeTimestamp $value }}", label="", value=9223372036.854775)
@example(text="{{ humanizeDuration $value }}", label="", value=1e300)
@example(text="{{ reReplaceAll `a*` `$99999999999999999999 $x` $labels.a }}", label="aa", value=0.0)
@example(text="{{ urlquery $labels.a }} {{ len $labels.a }}", label="\ud800", value=0.0)
def test_compile_raises_only_its_error_and_expand_none(text: str, label: str, value: float) -> None:
    try:
        template = Template.compile(text)
    except TemplateError:
        return
    shown = template.expand({"a": label}, value, query=lambda _: [(UP, value)])
    assert isinstance(shown, str)
    template.uses_value()
    template.queries()
