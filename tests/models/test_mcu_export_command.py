"""`headtail export mcu` from an ONNX file to the blob, the update and the refusals."""

import argparse
from pathlib import Path

import numpy as np
import onnx
import pytest
from Crypto.PublicKey import RSA
from onnx import TensorProto, helper, numpy_helper

from headtail.commands import export
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_models.mcu.blob import read_blob
from headtail_models.mcu.errors import DoesNotFitError
from headtail_models.mcu.tflite import tflite_of


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    export.add(parser.add_subparsers())
    args = parser.parse_args(["export", "mcu", *map(str, words)])
    status: int = args.handler(args)
    return status


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution, its mean over rows and columns, and logits; and samples beside it."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(6, 2, 3, 3)).astype(np.float32),
        "d": rng.normal(size=(3, 6)).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["features"], pads=[1, 1, 1, 1]),
            helper.make_node("GlobalAveragePool", ["features"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["flat"]),
            helper.make_node("Gemm", ["flat", "d"], ["logits"], transB=1),
        ],
        "head",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("features", "logits")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = tmp_path / "head.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    np.save(tmp_path / "samples.npy", rng.normal(size=(20, 2, 6, 6)).astype(np.float32))
    return path


def test_a_head_with_an_exit_and_an_update(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model.parent
    (folder / "key.pem").write_bytes(RSA.generate(2048).export_key())
    exit_words = ("--exit", "logits", "--threshold", 0.5, "--temperature", 0.5, "--bits", 4)
    update_words = ("--sign", folder / "key.pem", "--release", 3)
    assert not run(
        *(model, "--samples", folder / "samples.npy", "--board", "rp2040"),
        *("--out", folder / "a.head", *exit_words, *update_words),
    )
    blob = (folder / "a.head").read_bytes()
    assert read_blob(blob).exit is not None
    assert (folder / "a.update").read_bytes().endswith(blob)
    assert len((folder / "a.key").read_bytes()) == 256
    printed = capsys.readouterr().out
    assert "up to the exit" in printed
    assert "same answer for" in printed
    assert "times are estimates" in printed


def test_the_same_head_for_other_runtimes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model.parent
    words = (model, "--samples", folder / "samples.npy", "--board", "rp2040")
    assert not run(*words, "--out", folder / "a.head", "--tflite", folder / "a.tflite")
    program = read_blob((folder / "a.head").read_bytes())
    assert (folder / "a.tflite").read_bytes() == tflite_of(program)
    assert "without exit and front end" in capsys.readouterr().out
    with pytest.raises(ResourceError):
        run(*words, "--out", folder / "a.head", "--tflite", folder / "none" / "a.tflite")


def test_refusals(model: Path) -> None:
    folder = model.parent
    words = (model, "--samples", folder / "samples.npy", "--board", "rp2040", "--out")
    target = folder / "a.head"
    with pytest.raises(DoesNotFitError, match="ms more than"):
        run(*words, target, "--max-ms", 0.1)
    with pytest.raises(ConfigError, match="--threshold above 0"):
        run(*words, target, "--exit", "logits")
    with pytest.raises(ConfigError, match="without --exit"):
        run(*words, target, "--threshold", 0.5)
    with pytest.raises(ConfigError, match="no output"):
        run(*words, target, "--logits", "answer")
    with pytest.raises(ConfigError, match="absent"):
        run(*words, target, "--sign", folder / "absent.pem")
    assert not target.exists()
    with pytest.raises(ResourceError):
        run(*words, folder / "none" / "a.head")
