"""`headtail split`."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from headtail.commands import split as command
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_models.bundle import open_bundle
from headtail_models.bundle.errors import TargetNotEmptyError
from headtail_models.bundle.specimen import LABELS, noise, write_stages
from headtail_models.entrance import pictures_of
from headtail_models.splitting.bundling import NotBundledError
from headtail_models.splitting.errors import NotACutError, SampleError

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_stages(tmp_path)
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n")
    np.save(tmp_path / "real.npy", noise(2, seed=1))
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `headtail split full.onnx --out parts` and returns what it printed."""

    def run(*words: str | Path) -> str:
        parser = argparse.ArgumentParser()
        command.add(parser.add_subparsers())
        args = parser.parse_args(["split", "full.onnx", "--out", "parts", *map(str, words)])
        assert args.handler(args) == 0
        return capsys.readouterr().out

    return run


def test_parts_and_a_bundle(run: Run, folder: Path) -> None:
    out = run(
        "--at", "late", "--labels", "labels.txt", "--samples", "real.npy",
        "--verify-with", "real.npy", "--name", "mine", "--licence", "CC0-1.0",
        "--prepare", "centre-crop", "--resize", "20", "--std", "0.5,0.5,0.5",
    )  # fmt: skip
    assert "crosses: late float32 Nx12x8x8" in out
    assert "equal the whole on 4 inputs" in out
    assert "centre-crop to 16x16, RGB / 255, less mean, over std" in out
    written = sorted(path.name for path in (folder / "parts").iterdir())
    assert written == ["bundle", "head.onnx", "split.json", "tail.onnx"]
    manifest = open_bundle(folder / "parts" / "bundle").manifest
    assert (manifest.name, manifest.labels) == ("mine", LABELS)
    assert pictures_of(manifest).resize == 20
    assert manifest.provenance[0].licence == "CC0-1.0"
    assert "q8" in manifest.cuts[0].quantisers


def test_no_bundle_is_made_without_need(run: Run, folder: Path) -> None:
    run("--at", "late", "--task", "none")
    assert not (folder / "parts" / "bundle").exists()


def test_where_no_bundle_can_be_made_the_reason_is_said(run: Run, folder: Path) -> None:
    (folder / "full.onnx").write_bytes((folder / "tail-early.onnx").read_bytes())
    out = run("--at", "late")
    assert "No bundle: the model's input is not one float picture" in out
    assert (folder / "parts" / "tail.onnx").is_file()
    with pytest.raises(TargetNotEmptyError):
        run("--at", "late")


def test_nothing_is_left_behind_when_it_fails(run: Run, folder: Path) -> None:
    (folder / "labels.txt").write_text("one\ntwo\n")
    before = sorted(folder.iterdir())
    with pytest.raises(NotACutError):
        run("--at", "logits")
    with pytest.raises(NotBundledError, match="2 labels"):
        run("--at", "late", "--labels", "labels.txt")
    with pytest.raises(SampleError):
        run("--at", "late", "--verify-with", "labels.txt")
    assert sorted(folder.iterdir()) == before


def test_a_fixed_batch_is_freed_for_the_bundle(run: Run, folder: Path) -> None:
    proto = onnx.load(folder / "full.onnx")
    for one in (*proto.graph.input, *proto.graph.output):
        one.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(proto, folder / "full.onnx")
    assert "bundle: full 1.0" in run("--at", "late")


def test_a_batch_that_can_not_be_freed(run: Run, folder: Path) -> None:
    body = """
g (float[1,3,4,4] image) => (float[1,48] y) <int64[2] to = {1, 48}> {
  a = Relu(image)
  y = Reshape(a, to)
}"""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{body}')
    (folder / "full.onnx").write_bytes(model.SerializeToString())
    assert "No bundle: the model takes one picture at a time" in run("--at", "a")


def test_an_early_output_is_said(run: Run, folder: Path) -> None:
    body = """
g (float[N,4] x) => (float[N,4] a, float[N,4] y) {
  a = Relu(x)
  y = Exp(a)
}"""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{body}')
    (folder / "full.onnx").write_bytes(model.SerializeToString())
    assert "the head has the output a" in run("--at", "a")


def test_insisting_on_a_bundle(run: Run, folder: Path) -> None:
    (folder / "full.onnx").write_bytes((folder / "tail-early.onnx").read_bytes())
    with pytest.raises(NotBundledError):
        run("--at", "late", "--task", "classify")


def test_files_that_are_wrong(run: Run, folder: Path) -> None:
    (folder / "binary.txt").write_bytes(b"\xff\xfe")
    for labels in ("none.txt", "binary.txt"):
        with pytest.raises(ConfigError):
            run("--at", "late", "--labels", labels)
    with pytest.raises(ConfigError, match="leaves no crop"):
        run("--at", "late", "--prepare", "centre-crop", "--resize", "4")
    (folder / "file").touch()
    with pytest.raises(ResourceError):
        run("--at", "late", "--out", "file/parts")
