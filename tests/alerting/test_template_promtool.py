"""Every template of the table, over every value, is what promtool's unit tests say it is."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.support.template_cases import (
    EXTERNAL_LABELS,
    EXTERNAL_URL,
    FAILING_TEMPLATES,
    QUERIED,
    TEXTS,
    floats,
    templates,
)

from enginewatch.alerting.template import Template
from enginewatch.model import Labels, Sample

PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus"
)


def series(name: str, values: list[float], texts: list[str]) -> list[Sample]:
    return [
        Sample(Labels({"__name__": name, "i": f"{i:03}", "text": text}), value)
        for i, (value, text) in enumerate(zip(values, texts, strict=True))
    ]


NUMBERS = series("number", floats(), [""] * len(floats()))
STRINGS = series("text", [float(i) for i in range(len(TEXTS))], list(TEXTS))
ONE = series("one", [42.5], ["x"])


def query(text: str) -> list[tuple[Labels, float]]:
    return [(s.labels, s.value) for s in QUERIED] if text == "sort(q)" else []


def expand(template: str, sample: Sample) -> str:
    compiled = Template.compile(template)
    return compiled.expand(sample.labels, sample.value, EXTERNAL_LABELS, EXTERNAL_URL, query)


def notation(value: float) -> str:
    return (
        str(value) if math.isfinite(value) else {"nan": "NaN"}.get(str(value), f"{value}".title())
    )


def promtool(folder: Path, cases: list[tuple[str, list[Sample]]], *, guess: bool) -> str:
    """Run a unit test with one alert a template, expecting our texts (or nothing); its output."""
    rules, tests, used = [], [], list(QUERIED)
    for i, (template, samples) in enumerate(cases):
        name = f"T{i:03}"
        used += [s for s in samples if s not in used]
        rules.append(
            {"alert": name, "expr": samples[0].labels.name, "annotations": {"x": template}}
        )
        expected = [
            {
                "exp_labels": {k: v for k, v in s.labels.items() if k != "__name__"},
                "exp_annotations": {"x": expand(template, s) if guess else ""},
            }
            for s in samples
        ]
        tests.append({"eval_time": "0s", "alertname": name, "exp_alerts": expected})
    group = {
        "external_labels": EXTERNAL_LABELS,
        "external_url": EXTERNAL_URL,
        "input_series": [{"series": repr(s.labels), "values": notation(s.value)} for s in used],
        "alert_rule_test": tests,
    }
    dump(folder / "rules.yml", {"groups": [{"name": "g", "rules": rules}]})
    dump(folder / "test.yml", {"rule_files": ["rules.yml"], "tests": [group]})
    command = [str(PROMTOOL), "test", "rules", str(folder / "test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def dump(path: Path, data: object) -> None:
    path.write_text(yaml.safe_dump(data, allow_unicode=True, width=10**6), encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "samples"), [("numbers", NUMBERS), ("texts", STRINGS), ("syntax", ONE)]
)
def test_same_text_as_prometheus(tmp_path: Path, section: str, samples: list[Sample]) -> None:
    output = promtool(
        tmp_path, [(template, samples) for template in templates(section)], guess=True
    )
    assert output.rstrip().endswith("SUCCESS"), output[:6000]


def test_fails_where_prometheus_fails_and_for_the_same_reason(tmp_path: Path) -> None:
    output = promtool(tmp_path, [(template, ONE) for template, _ in FAILING_TEMPLATES], guess=False)
    texts = re.findall(r'got:\[.*?x="(.*?)"\}\n', output, re.DOTALL)
    assert len(texts) == len(FAILING_TEMPLATES), output
    for (template, reason), theirs in zip(FAILING_TEMPLATES, texts, strict=True):
        ours = expand(template, ONE[0])
        assert theirs.startswith("<error expanding template: "), template
        assert ours.startswith("<error expanding template: "), template
        assert reason in theirs.replace('\\"', '"'), template
        assert reason in ours, template
