"""Stamps: written at build time, compared with what there is now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.preflight.planforge import forge, form, record_of
from tests.preflight.test_engine_dir import write_engine
from tests.preflight.weights import write_checkpoint
from typer.testing import CliRunner

from enginewatch.cli import command_line
from enginewatch.preflight.artifacts import engine_dir
from enginewatch.preflight.facts import Facts
from enginewatch.preflight.finding import Finding
from enginewatch.preflight.inputs import Inputs, gather
from enginewatch.preflight.judge import judge, shipped_preflight
from enginewatch.preflight.readers.checkpoint import read_checkpoint
from enginewatch.preflight.readers.digest import sampled, whole
from enginewatch.preflight.readers.gpus import declared_gpus
from enginewatch.preflight.readers.stampfile import STAMP, Stamp, read_stamp
from enginewatch.preflight.readers.unread import Unread
from enginewatch.preflight.readers.versions import declared_version
from enginewatch.preflight.stale import effects, samples
from enginewatch.preflight.stamp import LIMITS, VERSIONS, revision_of

RULES = shipped_preflight().only({"stale", "architecture"})
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def stamp(*arguments: str, expect: int = 0) -> str:
    result = CliRunner().invoke(command_line(), ["stamp", *arguments])
    assert result.exit_code == expect, result.output + str(result.exception)
    return result.output


def write_model(folder: Path) -> Path:
    write_checkpoint(
        folder,
        {"model-1.safetensors": {"a.weight": ("BF16", (64, 64))}},
        {"architectures": ["LlamaForCausalLM"]},
    )
    return folder


@pytest.fixture
def stamped(tmp_path: Path) -> Path:
    """A folder with `engine`, stamped, and the `model` that it was built from."""
    write_engine(tmp_path / "engine", model="H200")
    write_model(tmp_path / "model")
    stamp(
        str(tmp_path / "engine"),
        *("--model", str(tmp_path / "model")),
        *("--command", "trtllm-build --checkpoint_dir x HF_TOKEN=hf_abcdefghijklmnop"),
        *("--runtime", "cuda=13.1", "--gpus", "H200"),
    )
    return tmp_path


def facts(folder: Path, gpu: str = "H200") -> Facts:
    return (
        engine_dir(str(folder / "engine"))
        + Facts(checkpoints=(read_checkpoint(folder / "model"),))
        + Facts(gpus=(declared_gpus(f"2x{gpu}"),))
    )


def findings(given: Facts) -> list[Finding]:
    return list(judge(samples(given), RULES).findings)


def told(given: Facts) -> set[tuple[str, object]]:
    return {(each.code, each.fields.get("aspect")) for each in findings(given)}


def test_a_stamp_has_what_the_engine_does_not_tell(stamped: Path) -> None:
    found = read_stamp(stamped / "engine")
    assert isinstance(found, Stamp)
    assert set(found.engines) == {"config.json", "rank0.engine", "rank1.engine"}
    assert set(found.files) == {
        "config.json",
        "model.safetensors.index.json",
        "model-1.safetensors",
    }
    assert all(len(digest.whole) == 64 for digest in found.engines.values())
    assert (found.gpu, str(found.capability)) == ("H200", "9.0")
    assert found.precision == {"format": "FP8", "dtype": "bfloat16"}
    assert found.shapes["max_batch_size"] == 64
    assert found.versions["tensorrt"] == "10.6.0.26"
    assert found.versions["tensorrt-llm"] == "1.2.1"
    assert found.versions["cuda"] == "13.1"
    assert "hf_abc" not in found.command
    assert Stamp(where=found.where).to_json().keys() == found.to_json().keys()


def test_nothing_has_changed(stamped: Path) -> None:
    assert told(facts(stamped)) == set()


def test_a_model_that_was_trained_on(stamped: Path) -> None:
    path = stamped / "model" / "model-1.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    assert told(facts(stamped)) == {("EW-STALE-002", "model weights")}


def test_a_shard_that_is_gone(stamped: Path) -> None:
    (stamped / "model" / "model-1.safetensors").unlink()
    [finding] = findings(facts(stamped))
    assert "model-1.safetensors is gone" in finding.summary


def test_another_configuration_of_the_model(stamped: Path) -> None:
    (stamped / "model" / "config.json").write_text('{"rope_theta": 5}')
    assert told(facts(stamped)) == {("EW-STALE-002", "model configuration")}


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("H100", {("EW-STALE-003", "GPU model")}),
        ("B200", {("EW-STALE-002", "compute capability")}),
    ],
)
def test_another_gpu(stamped: Path, gpu: str, expected: set[tuple[str, str]]) -> None:
    assert told(facts(stamped, gpu)) == expected


def test_another_version(stamped: Path) -> None:
    now = tuple(map(declared_version, ("tensorrt=10.14.1.48", "tensorrt-llm=1.2.1", "cuda=13.3")))
    assert told(facts(stamped) + Facts(versions=now)) == {
        ("EW-STALE-002", "tensorrt"),
        ("EW-STALE-003", "cuda"),
    }


def test_an_engine_that_was_built_again_without_a_stamp(stamped: Path) -> None:
    write_engine(stamped / "engine", model="H200", tp=2, max_beam_width=4)
    (stamped / "engine" / "rank1.engine").write_bytes(
        forge(form("C4"), record_of("H200"), filling=333)
    )
    found = told(facts(stamped))
    assert ("EW-STALE-004", None) in found
    assert ("EW-STALE-002", "max_beam_width") in found


def test_an_engine_without_a_stamp_is_unknown(tmp_path: Path) -> None:
    write_engine(tmp_path / "engine", model="H200")
    [finding] = findings(engine_dir(str(tmp_path / "engine")))
    assert (finding.code, finding.unknown) == ("EW-STALE-001", True)


def test_the_gpu_of_the_stamp_counts_where_the_plan_does_not_tell(stamped: Path) -> None:
    path = stamped / "engine" / STAMP
    plan = forge(form("C4", lead=2), record_of("H200"))
    for rank in range(2):
        (stamped / "engine" / f"rank{rank}.engine").write_bytes(plan)
    given = facts(stamped, "B200")
    found = [each for each in findings(given) if each.code == "EW-ARCH-001"]
    assert found[0].fields["by"] == "stamp"
    assert found[0].evidence[0].source == str(path)


@pytest.mark.parametrize(
    ("flag", "asked", "limit"),
    [
        ("--max_batch_size", 256, "max_batch_size"),
        ("--max_num_tokens", 16384, "max_num_tokens"),
        ("--max_batch_size", 64, None),
    ],
)
def test_a_command_beyond_what_was_built(
    stamped: Path, flag: str, asked: int, limit: str | None
) -> None:
    command = f"trtllm-serve {stamped}/engine {flag} {asked}"
    found = findings(facts(stamped) + gather(Inputs({"--command": (command,)})))
    assert [each.fields["limit"] for each in found if each.code == "EW-STALE-005"] == (
        [limit] if limit else []
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"enginewatch_stamp": 2}',
        '{"engines": {}}',
    ],
)
def test_a_stamp_that_can_t_be_read_is_told(stamped: Path, content: str) -> None:
    (stamped / "engine" / STAMP).write_text(content)
    found = read_stamp(stamped / "engine")
    assert isinstance(found, Unread)
    assert engine_dir(str(stamped / "engine")).unread == (found,)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("size", "sampled", "files", "path", "../x", "model")), inner
        )
    ),
    max_leaves=8,
)
PARTS = ("made", "engines", "model", "precision", "shapes", "gpu", "versions", "command")


@given(st.dictionaries(st.sampled_from(PARTS), JSON))
@settings(deadline=None, max_examples=60)
def test_a_stamp_of_any_shape_never_raises(tmp_path_factory: Any, value: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("stamp")
    (folder / STAMP).write_text(json.dumps(value | {"enginewatch_stamp": 1}))
    found = read_stamp(folder)
    assert isinstance(found, Stamp)
    assert all("/" not in name for name in found.engines)


def test_verify_reads_all_of_it(stamped: Path) -> None:
    engine = str(stamped / "engine")
    assert "is what was stamped" in stamp(engine, "--verify")
    path = stamped / "engine" / "rank0.engine"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "rank0.engine has another content" in stamp(engine, "--verify", expect=1)


def test_what_can_t_be_stamped(tmp_path: Path) -> None:
    assert stamp(str(tmp_path / "absent"), expect=1) == ""
    write_engine(tmp_path / "engine")
    plan = tmp_path / "engine" / "rank0.engine"
    plan.write_bytes(plan.read_bytes()[:-9])
    stamp(str(tmp_path / "engine"), expect=1)
    assert not (tmp_path / "engine" / STAMP).exists()


def test_the_revision_of_a_model_from_the_hub(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--name" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    assert revision_of(snapshot) == COMMIT
    note = tmp_path / "local" / ".cache" / "huggingface" / "download" / "config.json.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{COMMIT}\nabc\n1.0\n")
    assert revision_of(tmp_path / "local") == COMMIT
    assert revision_of(tmp_path) == ""


def test_progress_is_told_while_a_file_is_hashed(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    with path.open("wb") as stream:
        stream.truncate(20 << 20)
    heard: list[tuple[str, int, int]] = []
    digest = whole(path, lambda *told: heard.append(told))
    assert [done for _, done, _ in heard] == [8 << 20, 16 << 20, 20 << 20]
    assert heard[-1] == ("weights", 20 << 20, 20 << 20)
    assert digest.sampled == sampled(path).sampled


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_a_sampled_digest_sees_ends_and_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    first = sampled(path)
    assert first.size == size
    path.write_bytes(bytes(size + 1))
    assert sampled(path).sampled != first.sampled


def test_every_aspect_that_is_compared_has_an_effect() -> None:
    assert {*LIMITS, "tp_size", "pp_size", "tensorrt", "tensorrt-llm"} <= set(effects())
    assert set(VERSIONS) - set(effects()) == {"driver"}
