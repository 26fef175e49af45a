"""A page read by another of its kind is read as if it were the first that was ever seen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.test_exposition_reader import TEXT, remembering, strictly

from enginewatch.exposition import Limits, PageCache, PageReader
from enginewatch.exposition.kin import KinLayout

LIMITS = Limits()


def page(model: str = "llama", blocks: int = 100, *, engine: str = "0", more: str = "") -> bytes:
    own = f'engine="{engine}",model_name="{model}"'
    lines = [
        "# HELP tokens_total Tokens.",
        "# TYPE tokens_total counter",
        *(f'tokens_total{{{own},source="{source}"}} {blocks}' for source in ("a", "b", "c")),
        f'cache_config_info{{block_size="16",{own},num_gpu_blocks="{blocks}"}} 1',
        "# TYPE gap_seconds histogram",
        *(f'gap_seconds_bucket{{le="{bound}",{own}}} 5' for bound in ("0.1", "1", "+Inf")),
        f"gap_seconds_sum{{{own}}} 1.5",
        f"gap_seconds_count{{{own}}} 5",
        "process_cpu_seconds_total 3",
    ]
    return ("\n".join(lines) + "\n" + more).encode()


def both(
    first: bytes, second: bytes, limits: Limits = LIMITS
) -> tuple[object, object, type[object]]:
    """What a reader says of the second page after another target's first, what it would say had
    it seen none, and the kind of layout that it has then."""
    cache = PageCache(limits)
    readers = [PageReader(cache) for _ in range(2)]
    remembering(readers[0], first, TEXT)
    told = remembering(readers[1], second, TEXT)
    layout = type(None) if isinstance(told, str) else type(readers[1].read(second, TEXT).layout)
    return told, strictly(second, TEXT, limits), layout


@pytest.mark.parametrize(
    ("second", "by_kin"),
    [
        pytest.param(page("qwen"), True, id="another model"),
        pytest.param(page("qwen", engine="1"), True, id="another model and rank"),
        pytest.param(page("qwen", 200), True, id="another model and its settings"),
        pytest.param(page(blocks=200), True, id="the same model under other settings"),
        pytest.param(page("qwen").replace(b'"+Inf"', b'"2"'), False, id="another bucket"),
        pytest.param(page("a\\\\b"), False, id="an escape in the name"),
        pytest.param(page("a"), True, id="a name that is the value of another label"),
        pytest.param(page(""), False, id="no name"),
        pytest.param(page("qwen").replace(b" Tokens.", b" Tokens!"), False, id="another help"),
        pytest.param(page("qwen").replace(b"1.5", b"1.5 1700000000000"), False, id="a timestamp"),
        pytest.param(page("qwen").replace(b"1.5", b"?"), False, id="no number"),
        pytest.param(page("qwen", more="x 1\n"), False, id="a series more"),
        pytest.param(page("qwen").replace(b'source="b"', b'source="a"'), False, id="a duplicate"),
        pytest.param(
            page("qwen").replace(b"cache_config_info", b"process_cpu_seconds_total"),
            False,
            id="a metric in another's place",
        ),
    ],
)
def test_a_page_is_read_as_without_its_kin(second: bytes, by_kin: bool) -> None:
    told, right, layout = both(page(), second)
    assert told == right
    assert (layout is KinLayout) == by_kin


def test_two_models_behind_one_port_do_not_become_one() -> None:
    first = page("llama") + page("qwen").split(b"# TYPE gap")[0]
    second = page("qwen") + page("llama").split(b"# TYPE gap")[0]
    told, right, _ = both(first, second)
    assert told == right


@pytest.mark.parametrize("length", [400, 511, 513, 700])
def test_a_longer_value_is_held_to_the_limits(length: int) -> None:
    limits = Limits(label_value_length=512)
    told, right, _ = both(page(), page("x" * length), limits)
    assert told == right


def test_kin_of_kin_and_values_that_follow() -> None:
    cache = PageCache()
    readers = [PageReader(cache) for _ in range(20)]
    for n, reader in enumerate(readers):
        reader.read(page(f"m{n}", n), TEXT)
    for n, reader in enumerate(readers):
        body = page(f"m{n}", n).replace(b"1.5", b"2.5")
        assert remembering(reader, body, TEXT) == strictly(body, TEXT, LIMITS)
    assert (
        sum(isinstance(r.read(page(f"m{n}", n)).layout, KinLayout) for n, r in enumerate(readers))
        == 19
    )


# Names and values that are prefixes, suffixes and spellings of each other: where a careless
# replacement goes wrong.
WORD = st.sampled_from(["a", "b", "ab", "m", "le", "1", "1.0", "x y", "", "\\n", '\\"', ",m="])
LINE = st.tuples(
    st.sampled_from(["f", "g", "f_bucket", "{"]),
    st.lists(st.tuples(st.sampled_from(["m", "am", "le", "b", '"m"']), WORD), max_size=3),
    st.sampled_from(["1", "2", "NaN", "1 5", "x"]),
)


def written(lines: list[tuple[str, list[tuple[str, str]], str]], renamed: dict[str, str]) -> bytes:
    rows = []
    for name, labels, value in lines:
        inner = ",".join(f'{key}="{renamed.get(text, text)}"' for key, text in labels)
        rows.append(f"{name}{{{inner}}} {value}" if labels else f"{name} {value}")
    return ("# TYPE f histogram\n" + "\n".join(rows) + "\n").encode()


@settings(deadline=None, max_examples=400)
@given(
    lines=st.lists(LINE, min_size=1, max_size=6),
    renamed=st.dictionaries(WORD, WORD, max_size=2),
    other=st.none() | st.tuples(st.integers(0, 5), LINE),
)
def test_any_page_after_any_other(
    lines: list[tuple[str, list[tuple[str, str]], str]],
    renamed: dict[str, str],
    other: tuple[int, tuple[str, list[tuple[str, str]], str]] | None,
) -> None:
    changed = list(lines)
    if other is not None:
        changed[other[0] % len(changed)] = other[1]
    told, right, _ = both(written(lines, {}), written(changed, renamed))
    assert told == right
