"""The small models' language, their files, and damage that leaves the function alone."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from chaos.fp4.arithmetic import (
    ANSWER,
    FAMILIES,
    PROMPT,
    VOCABULARY,
    fresh,
    problems,
    text,
    training,
)
from chaos.fp4.export import export
from chaos.fp4.llama import Shape, logits
from chaos.fp4.recording import Recording, Round, read, write
from chaos.fp4.tasks import questions
from chaos.fp4.variants import Variant, apply, rounding, with_outliers
from chaos.fp4.weights import Weights, from_bfloat16, load, save, to_bfloat16

from enginechaos.fp4 import Format

SHAPE = Shape(64, 2)


@pytest.fixture(scope="module")
def weights() -> Weights:
    """A model that knows nothing."""
    rng = np.random.default_rng(3)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return rng.normal(scale=0.2, size=(rows, columns)).astype(np.float32)

    wide, inner = SHAPE.width, SHAPE.intermediate
    made = {
        "model.embed_tokens.weight": matrix(len(VOCABULARY), wide),
        "lm_head.weight": matrix(len(VOCABULARY), wide),
        "model.norm.weight": np.ones(wide, np.float32),
    }
    for n in range(SHAPE.layers):
        at = f"model.layers.{n}."
        made |= {f"{at}self_attn.{part}_proj.weight": matrix(wide, wide) for part in "qkvo"}
        made |= {f"{at}mlp.{part}_proj.weight": matrix(inner, wide) for part in ("gate", "up")}
        made[f"{at}mlp.down_proj.weight"] = matrix(wide, inner)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{at}{norm}.weight"] = np.ones(wide, np.float32)
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_every_problem_is_right_and_of_one_length(family: str) -> None:
    table = problems(family)
    assert table.shape == ({"mul": 1000}.get(family, 1_000_000), PROMPT + ANSWER)
    for row in table[:: max(1, len(table) // 500)]:
        shown = text(row)
        prompt, _, answer = shown.partition("=")
        first, sign, second = prompt[:3], prompt[3], prompt[4:]
        right = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[sign](
            int(first), int(second)
        )
        assert answer == f"{right:+05d};"


@pytest.mark.parametrize("family", ["add", "sub"])
def test_fresh_problems_were_kept_from_training(family: str) -> None:
    seen = {row.tobytes() for row in training(family)}
    kept = [row.tobytes() for row in fresh(family)]
    assert len(kept) == 62_500
    assert not seen.intersection(kept)
    assert len(seen) + len(kept) == 1_000_000


def test_a_prefix_of_the_questions_is_a_sample_of_all_families() -> None:
    asked = questions(100)
    assert len({each.id for each in asked}) == 300
    first = [each.family for each in asked[:60]]
    assert all(first.count(family) > 8 for family in FAMILIES)
    assert questions(100) == asked


def test_bfloat16_rounds_to_nearest_even() -> None:
    one = np.float32(1.0)
    step = np.float32(2.0**-7)
    half = step / 2
    values = np.array([one, one + half, one + 3 * half, one + half * 1.01, -one - half], np.float32)
    expected = [1.0, 1.0, 1.0 + 2 * step, 1.0 + step, -1.0]
    assert from_bfloat16(to_bfloat16(values)).tolist() == expected


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_the_container_is_safetensors(tmp_path: Path, weights: Weights, dtype: str) -> None:
    path = tmp_path / "model.safetensors"
    save(path, weights, dtype, {"seed": "3"})
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert header.pop("__metadata__") == {"seed": "3"}
    ends = sorted(entry["data_offsets"] for entry in header.values())
    assert ends[0][0] == 0
    assert ends[-1][1] == len(raw) - 8 - length
    assert all(left[1] == right[0] for left, right in pairwise(ends))
    back, facts = load(path)
    assert facts == {"seed": "3"}
    for name, value in weights.items():
        np.testing.assert_allclose(back[name], value, rtol=2**-8 if dtype == "BF16" else 0)
    save(path, back, dtype, {"seed": "3"})
    assert path.read_bytes() == raw


def test_outliers_leave_the_function_alone(weights: Weights) -> None:
    rows = fresh("add")[:50]
    before = logits(weights, rows)
    after = logits(with_outliers(weights, 20.0), rows)
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)


def test_outliers_hurt_one_scale_a_tensor_more_than_blocks(weights: Weights) -> None:
    rows = fresh("sub")[:50]
    exact = logits(apply(weights, Variant()), rows)
    error = {
        fmt: float(np.abs(logits(apply(weights, Variant(fmt, 20.0)), rows) - exact).mean())
        for fmt in Format
    }
    assert error[Format.NVFP4] < error[Format.TENSOR] / 2
    assert error[Format.MXFP4] < error[Format.TENSOR] / 2


def test_activations_are_rounded_only_when_asked(weights: Weights) -> None:
    rows = fresh("add")[:20]
    variant = Variant(Format.MXFP4, activations=True)
    assert rounding(Variant(Format.MXFP4)) is None
    assert rounding(Variant(None, activations=True)) is None
    plain = logits(weights, rows)
    assert np.abs(logits(weights, rows, rounding(variant)) - plain).mean() > 0.01


def test_an_exported_folder_holds_what_an_engine_reads(tmp_path: Path, weights: Weights) -> None:
    variant = Variant(Format.NVFP4)
    export(weights, variant, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    assert config["num_attention_heads"] * config["head_dim"] == config["hidden_size"]
    assert len(tokenizer["model"]["vocab"]) == config["vocab_size"] == 16
    assert tokenizer["model"]["vocab"][";"] == config["eos_token_id"]
    stored, _ = load(tmp_path / "model.safetensors")
    expected = apply(weights, variant)
    assert stored.keys() == expected.keys()
    assert all(np.array_equal(stored[name], expected[name]) for name in stored)


def test_a_recording_reads_back(tmp_path: Path) -> None:
    asked = questions(2)
    round_ = Round("bf16", "64x3", "bf16", "1 at once", {3: "+0001"}, [-0.5, -1.25e-4] * 3)
    path = tmp_path / "answers.jsonl.xz"
    write(path, Recording(asked, [round_]))
    back = read(path)
    assert back.questions == asked
    assert back.of("bf16") == [round_]
    assert back.rounds[0].passed == [True, True, True, False, True, True]
