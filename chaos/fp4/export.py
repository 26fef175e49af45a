"""Write a model as a Hugging Face folder that vLLM and transformers load, damaged or not.

    PYTHONPATH=chaos python -m chaos.fp4.export chaos/fp4/models/96x4.safetensors \\
      --format nvfp4 --out /tmp/96x4-nvfp4

Weight-only formats become plain floats: an engine that multiplies with four-bit weights in higher
precision computes with the very same numbers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from chaos.fp4.arithmetic import END, UNKNOWN, VOCABULARY
from chaos.fp4.llama import HEAD_SIZE, NORM_EPSILON, ROPE_THETA, Shape, shape_of
from chaos.fp4.variants import Variant, apply
from chaos.fp4.weights import Weights, load, save

from enginechaos.fp4 import Format

LONGEST = 128  # tokens; the models know fourteen


def config(shape: Shape) -> dict[str, Any]:
    """`config.json` of a Llama of that size."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": ROPE_THETA,
        "max_position_embeddings": LONGEST,
        "vocab_size": len(VOCABULARY),
        "tie_word_embeddings": False,
        "attention_bias": False,
        "bos_token_id": None,
        "eos_token_id": END,
        "torch_dtype": "float32",
    }


def tokenizer() -> dict[str, Any]:
    """`tokenizer.json`: a character is a token, anything else is `?`."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": UNKNOWN, "content": VOCABULARY[UNKNOWN], "special": True, **special}
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE",
            "unk_token": VOCABULARY[UNKNOWN],
            "fuse_unk": False,
            "vocab": {character: number for number, character in enumerate(VOCABULARY)},
            "merges": [],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """`tokenizer_config.json`; the chat template passes messages through as they are."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": VOCABULARY[UNKNOWN],
        "eos_token": VOCABULARY[END],
        "model_max_length": LONGEST,
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    }


def export(weights: Weights, variant: Variant, folder: Path) -> None:
    """Write config, tokenizer and weights of one variant into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape_of(weights)
    for name, content in (
        ("config.json", config(shape)),
        ("tokenizer.json", tokenizer()),
        ("tokenizer_config.json", tokenizer_config()),
        ("generation_config.json", {"eos_token_id": END, "do_sample": False}),
    ):
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    facts = {"format": "pt", "variant": variant.name}
    save(folder / "model.safetensors", apply(weights, variant), "F32", facts)


def main() -> None:
    """Export one variant of one weight file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--format", type=Format, default=None, choices=list(Format))
    parser.add_argument("--outliers", type=float, default=1.0)
    options = parser.parse_args()
    variant = Variant(options.format, options.outliers)
    export(load(options.weights)[0], variant, options.out)
    print(f"{variant.name}: {options.out}")


if __name__ == "__main__":
    main()
