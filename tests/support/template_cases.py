"""Templates and alerts that Prometheus and this project must expand to the same text."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from random import Random

from enginewatch.model import Labels, Sample

EXTERNAL_LABELS = {"cluster": "eu-1", "replica": "A"}
EXTERNAL_URL = "https://prom.example:9090/base"


def floats() -> list[float]:
    """Edges of every humanize function, and some numbers nobody thought of."""
    edges = [0.0, 1.0, 0.5, 0.999, 0.9999, 0.99999, 0.001, 1e-4, 1e-5, 9.9995, 12.345, 59.9]
    edges += [60, 61.5, 99.995, 100, 999.4, 999.5, 999.95, 1000, 1023, 1023.99, 1024, 1048576]
    edges += [3599, 3600, 86399.9, 86400, 90061, 123456, 999999, 999950, 1e6, 1234567.0, 123456789]
    edges += [1.7645e9, 1764532800.123, 2**53, 1e15, 1e16, 9.2e18, 1e19, 1e21, 1e22, 1e27, 1e30]
    edges += [1e-3, 1e-6, 2.5e-9, 1e-12, 1e-18, 1e-24, 1e-27, 5e-324, 2.2250738585072014e-308]
    edges += [1.7976931348623157e308, math.inf, 0.1 + 0.2, 1 / 3, 2.675, 1.005, 0.125, 31536000]
    rng = Random(20)
    bits = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(40)]
    usual = [rng.uniform(0, 10) ** rng.randint(-4, 9) for _ in range(40)]
    positive = [float(x) for x in (*edges, *(abs(x) for x in bits if x == x), *usual)]
    return [*positive, *(-x for x in positive), math.nan]


TEXTS = (
    "vllm-0.ml.example.com:8000",
    "10.1.2.3:8000",
    "[fe80::1%eth0]:80",
    "[::1]:9000",
    "::1",
    "host",
    ":80",
    "a:b:c",
    "[x]y:1",
    "web.example.com",
    "",
    "hello wOrld-foo_bar baz's über-straße ǆ ŉ",
    "Ünï €ö 𝒳 漢字\u00a0x\u200by\u3000z",
    '{{ $value }} {{ query "x" }}',
    "<b>&\"'`\\ %d %!s(x) $1 ${x}",
    "tab\there\nnew\rline\x01\x7f",
    "1h30m",
    "0",
    "1.5e3",
    "0x1p-2",
    "1_000",
)

# In the order of `sort(q)`; promtool's storage gives them in no order.
QUERIED = (
    Sample(Labels({"__name__": "q", "host": "b", "zone": "1"}), -2.0),
    Sample(Labels({"__name__": "q", "host": "a", "zone": "2"}), 1.5),
    Sample(Labels({"__name__": "q", "host": "c.example.com:80"}), 1e9),
)

_TRIMMED = (
    "a {{- ` b ` -}} c {{-3}} {{- 3 -}} {{ 3 -}}\n\t d {{\n 4\n}}",
    "\n {{- if true }} x {{- end }} y \n\n {{- /* gone */ -}} \r\n z\n",
)


def templates(section: str) -> list[str]:
    """The templates of one section of the table; `syntax` has those with line breaks too."""
    text = (Path(__file__).parent.parent / "data/alerting/templates.txt").read_text("utf-8")
    body = text.partition(f"[{section}]\n")[2].partition("\n\n")[0]
    assert body, section
    return body.splitlines() + (list(_TRIMMED) if section == "syntax" else [])


FAILING_TEMPLATES = (
    ("{{ query `none` | first | value }}", "first() called on vector with no elements"),
    ("{{ humanize `x` }}", 'strconv.ParseFloat: parsing "x": invalid syntax'),
    ("{{ humanize `1e999` }}", 'strconv.ParseFloat: parsing "1e999": value out of range'),
    ("{{ humanize true }}", "can't convert bool to float"),
    ("{{ humanize $labels }}", "can't convert map[string]string to float"),
    ("{{ index (query `sort(q)`) 3 }}", "index out of range"),
    ("{{ index (query `sort(q)`) `x` }}", "cannot index slice/array with type string"),
    ("{{ index $labels 1 }}", "value has type int; should be string"),
    ("{{ index 1 1 }}", "can't index item of type int"),
    ("{{ index nil 1 }}", "index of untyped nil"),
    ("{{ len 1 }}", "len of type int"),
    ("{{ with args 1 }}{{ .arg0.x }}{{ end }}", "can't evaluate field x in type"),
    ("{{ with args 1 }}{{ range .arg0 }}{{ end }}{{ end }}", "range can't iterate over"),
    ("{{ with args 1.5 }}{{ toUpper .arg0 }}{{ end }}", "expected string; got float64"),
    ("{{ with args 1.5 }}{{ gt .arg0 1 }}{{ end }}", "incompatible types for comparison"),
    ("{{ with args true }}{{ gt .arg0 true }}{{ end }}", "invalid type for comparison"),
    ("{{ humanizeTimestamp 1e300 }}", "1e+300 cannot be represented as a nanoseconds timestamp"),
    ("{{ match (printf `(%s` $labels.i) `x` }}", ""),
    ("{{ parseDuration `soon` }}", ""),
)
