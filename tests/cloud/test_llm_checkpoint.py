"""From a GGUF file to a checkpoint, and what can be wrong with either."""

import errno
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headtail_cloud.engines.llm import conversion
from headtail_cloud.engines.llm.checkpoint import BadCheckpointError, open_checkpoint
from headtail_cloud.engines.llm.conversion import WEIGHTS, CheckpointStorageError, convert
from headtail_cloud.engines.llm.gguf import BadGgufError, GgufFile
from headtail_cloud.engines.llm.model_store import UnknownModelError, checkpoint
from tiny_llama import SHAPE, metadata, tensors, tiny_checkpoint, write_gguf


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf", metadata(), tensors())


def test_every_tensor_arrives_where_the_network_looks_for_it(tmp_path: Path) -> None:
    found = tiny_checkpoint(tmp_path / "tiny")
    own = tensors()
    assert found.shape == SHAPE
    assert {name: tuple(t.shape) for name, t in found.weights.items()} == SHAPE.tensors()
    np.testing.assert_array_equal(found.weights["embedding"].numpy(), own["token_embd.weight"])
    np.testing.assert_array_equal(found.weights["head"].numpy(), own["token_embd.weight"].T)
    joined = np.concatenate([own[f"blk.1.attn_{part}.weight"] for part in "qkv"])
    np.testing.assert_array_equal(found.weights["layers.1.qkv"].numpy(), joined.T)


def test_weights_lie_at_aligned_places_and_are_mapped(tmp_path: Path) -> None:
    found = tiny_checkpoint(tmp_path / "tiny")
    assert found.weights["layers.0.qkv"].data_ptr() % 32 == 0
    assert found.weights["norm"].dtype == torch.float32


def test_a_checkpoint_that_is_there_stays(tmp_path: Path, source: Path) -> None:
    convert(source, tmp_path / "done")
    (tmp_path / "done" / "mark").touch()
    convert(source, tmp_path / "done")
    assert (tmp_path / "done" / "mark").exists()


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(conversion, "write_safetensors", full)
    with pytest.raises(CheckpointStorageError, match="No space left"):
        convert(source, tmp_path / "cache" / "model")
    assert list((tmp_path / "cache").iterdir()) == []


def test_too_small_a_disk_is_said_before_anything_is_written(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(CheckpointStorageError, match="MB left"):
        convert(source, tmp_path / "cache" / "model")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("general.architecture", "mamba", "no network of the Llama family"),
        ("llama.attention.head_count_kv", 3, "heads over"),
        ("llama.block_count", 0, "layers"),
        ("llama.vocab_size", 200, "embedding is"),
        ("tokenizer.ggml.pre", "unheard-of", "tokeniser"),
    ],
)
def test_a_model_that_is_not_known_is_refused(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    source = write_gguf(tmp_path / "odd.gguf", {**metadata(), key: value}, tensors())
    with pytest.raises(BadGgufError, match=message):
        convert(source, tmp_path / "odd")


@pytest.mark.parametrize("keep", [0, 3, 20, 200, 4000, 60_000])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, source: Path, keep: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(source.read_bytes()[:keep])
    with pytest.raises(BadGgufError):
        convert(cut, tmp_path / "cut")


def test_counts_that_no_file_has_are_refused(tmp_path: Path, source: Path) -> None:
    data = bytearray(source.read_bytes())
    data[8:16] = (1 << 60).to_bytes(8, "little")
    (tmp_path / "huge.gguf").write_bytes(data)
    with pytest.raises(BadGgufError, match="of something"):
        GgufFile(tmp_path / "huge.gguf")


def test_quantised_blocks_unpack_as_specified(tmp_path: Path) -> None:
    scale, least = np.float16(0.5), np.float16(-2)
    low_and_high = bytes(at | (15 - at) << 4 for at in range(16))
    q8 = np.arange(-16, 16, dtype=np.int8)
    blocks = {
        3: scale.tobytes() + least.tobytes() + low_and_high,
        2: scale.tobytes() + low_and_high,
        8: scale.tobytes() + q8.tobytes(),
    }
    nibbles = np.concatenate((np.arange(16), 15 - np.arange(16)))
    expected = {3: 0.5 * nibbles - 2, 2: 0.5 * (nibbles - 8), 8: 0.5 * q8}
    for kind, block in blocks.items():
        path = write_gguf(tmp_path / "q.gguf", {}, {"w": np.zeros((1, 32), np.float32)})
        data = bytearray(path.read_bytes())
        at = data.index(b"w" + (2).to_bytes(4, "little")) + 21
        data[at : at + 4] = kind.to_bytes(4, "little")
        data[-128:] = block.ljust(128, b"\0")
        path.write_bytes(data)
        np.testing.assert_array_equal(GgufFile(path).tensor("w")[0], expected[kind])


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path / "tiny")
    weights = tmp_path / "tiny" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(BadCheckpointError):
        open_checkpoint("tiny", tmp_path / "tiny")


def test_models_are_told_apart(tmp_path: Path) -> None:
    one, other = (tiny_checkpoint(tmp_path / f"m{seed}", seed) for seed in (0, 1))
    assert one.digest != other.digest
    assert one.digest == tiny_checkpoint(tmp_path / "again").digest


def test_a_folder_is_a_model_and_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path / "tiny")
    assert checkpoint(str(tmp_path / "tiny")).name == "tiny"
    with pytest.raises(UnknownModelError, match="smollm2"):
        checkpoint("gpt-17", cache_dir=tmp_path)
