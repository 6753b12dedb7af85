"""A bundle of a user's own classifier."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from headtail_fabric.codec import codec_for
from headtail_models.bundle import open_bundle
from headtail_models.bundle.manifest import Preprocess
from headtail_models.bundle.specimen import LABELS, SIDE, noise, write_stages
from headtail_models.splitting import OnnxModel, open_model
from headtail_models.splitting.bundling import (
    BundleWish,
    NotBundledError,
    cut_name,
    why_not_bundled,
    write_split_bundle,
)
from headtail_models.splitting.errors import UnequalError
from headtail_models.splitting.model import check_freed
from headtail_models.splitting.samples import Sample

WISH = BundleWish(
    name="mine",
    version="2.1",
    preprocess=Preprocess(kind="centre-crop", width=SIDE, height=SIDE),
    labels=LABELS,
    source="mine.onnx",
)


def specimen(tmp_path: Path) -> Path:
    (tmp_path / "specimen").mkdir(exist_ok=True)
    write_stages(tmp_path / "specimen")
    return tmp_path / "specimen" / "full.onnx"


def opened(path: Path, work: str = "work", **options: Any) -> OnnxModel:
    folder = path.parent / work
    folder.mkdir()
    return open_model(path, folder, **options)


def of_text(tmp_path: Path, body: str) -> OnnxModel:
    path = tmp_path / "model.onnx"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{body}')
    path.write_bytes(model.SerializeToString())
    return opened(path)


def reason(model: OnnxModel, *at: str) -> str | None:
    return why_not_bundled(model, model.split(model.cut_at(*at)))


def test_the_bundle_computes_what_the_model_does(tmp_path: Path) -> None:
    model = opened(specimen(tmp_path))
    split = model.split(model.cut_at("late"))
    samples = [Sample(name=str(seed), inputs={"picture": noise(1, seed=seed)}) for seed in range(4)]
    path = write_split_bundle(model, split, tmp_path / "bundle", WISH, samples=samples)
    bundle = open_bundle(path)
    manifest = bundle.manifest
    assert (manifest.name, manifest.version, manifest.labels) == ("mine", "2.1", LABELS)
    assert manifest.default_codec == "q8+zstd"
    (cut,) = manifest.cuts
    assert cut.codecs == ("raw", "raw+zstd", "q8", "q8+zstd", "q4", "q4+zstd")
    assert manifest.full.macs == cut.head.macs + cut.tail.macs > 0
    pictures = {"picture": noise(3, seed=9)}
    expected = bundle.open_stage(manifest.full).run(pictures)["logits"]
    crossing = bundle.open_stage(cut.head).run(pictures)["late"]
    codec = codec_for("q8", quantiser=bundle.quantiser("late", "q8"))
    arrived = codec.decode(codec.encode(crossing), crossing.shape)
    tail = bundle.open_stage(cut.tail)
    np.testing.assert_allclose(tail.run({"late": crossing})["logits"], expected, atol=1e-5)
    np.testing.assert_allclose(tail.run({"late": arrived})["logits"], expected, atol=0.05)


def test_without_samples_only_the_exact_codecs(tmp_path: Path) -> None:
    model = opened(specimen(tmp_path))
    split = model.split(model.cut_at("early"))
    bundle = open_bundle(write_split_bundle(model, split, tmp_path / "bundle", WISH))
    assert bundle.manifest.cuts[0].codecs == ("raw", "raw+zstd")
    assert bundle.manifest.default_codec == "raw+zstd"


def test_weights_are_there_once(tmp_path: Path) -> None:
    first, second = ",".join(["0.5"] * 40 * 192), ",".join(["1"] * 80)
    model = of_text(
        tmp_path,
        f"""
g (float[N,3,8,8] image) => (float[N,2] scores)
<float[40,192] w = {{{first}}}, float[2,40] v = {{{second}}}> {{
  flat = Flatten(image)
  hidden = Gemm<transB = 1>(flat, w)
  scores = Gemm<transB = 1>(hidden, v)
}}""",
    )
    wish = BundleWish(
        name="m",
        version="1",
        preprocess=Preprocess(kind="letterbox", width=8, height=8),
        source="m",
    )
    split = model.split(model.cut_at("hidden"))
    bundle = open_bundle(write_split_bundle(model, split, tmp_path / "bundle", wish))
    sizes = {entry.path: entry.size_bytes for entry in bundle.manifest.files}
    assert sizes["weights.bin"] == 4 * 40 * 192
    assert all(size < 4000 for path, size in sizes.items() if path != "weights.bin")
    assert bundle.manifest.labels == ("class 0", "class 1")


def test_a_fixed_batch_is_freed_and_checked(tmp_path: Path) -> None:
    path = specimen(tmp_path)
    proto = onnx.load(path)
    for one in (*proto.graph.input, *proto.graph.output):
        one.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(proto, path)
    fixed = opened(path)
    assert reason(fixed, "late") == (
        "the model takes one picture at a time; export it with a free batch axis"
    )
    freed = opened(path, "freed", free_batch=True)
    assert check_freed(freed, fixed).runs == 3
    split = freed.split(freed.cut_at("late"))
    write_split_bundle(freed, split, tmp_path / "bundle", WISH)


def test_a_model_that_mixes_its_frames_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "model.onnx"
    body = """
g (float[1,4] x) => (float[1,4] y) {
  a = Relu(x)
  m = ReduceMean<axes = [0], keepdims = 1>(a)
  y = Sub(a, m)
}"""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{body}')
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UnequalError):
        check_freed(opened(path, "freed", free_batch=True), opened(path))


def test_long_names_are_shortened_where_they_cross(tmp_path: Path) -> None:
    path = specimen(tmp_path)
    proto = onnx.load(path)
    long = "/backbone" * 9 + "/late"
    for node in proto.graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                if name == "late":
                    names[at] = long
    onnx.save(proto, path)
    model = opened(path)
    split = model.split(model.cut_at(long))
    bundle = open_bundle(write_split_bundle(model, split, tmp_path / "bundle", WISH))
    (cut,) = bundle.manifest.cuts
    assert cut.tensor.name == cut.name == cut_name(long)
    pictures = {"picture": noise(2, seed=1)}
    crossing = bundle.open_stage(cut.head).run(pictures)
    np.testing.assert_allclose(
        bundle.open_stage(cut.tail).run(crossing)["logits"],
        bundle.open_stage(bundle.manifest.full).run(pictures)["logits"],
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        ("/layer1/Relu_output_0", "layer1-Relu_output_0"),
        ("input", "input-cut"),
        ("::", "cut"),
        ("a b\n", "a-b"),
        ("x" * 70, "x" * 64),
    ],
)
def test_names_of_cuts(tensor: str, name: str) -> None:
    assert cut_name(tensor) == name


def test_what_a_bundle_can_not_hold(tmp_path: Path) -> None:
    picture = "g (float[N,3,8,8] image) =>"
    bodies = {
        "no_picture": "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Exp(a) }",
        "several": f"{picture} (float[N,3,8,8] y) {{ a = Relu(image) b = Exp(a) y = Add(a, b) }}",
        "early": f"{picture} (float[N,3,8,8] a, float[N,3,8,8] y) {{ a = Relu(image) y = Exp(a) }}",
        "scores": f"{picture} (float[N,3,8,8] y) {{ a = Relu(image) y = Exp(a) }}",
    }
    models = {}
    for name, body in bodies.items():
        (tmp_path / name).mkdir()
        models[name] = of_text(tmp_path / name, body)
    assert "not one float picture" in (reason(models["no_picture"], "a") or "")
    assert reason(models["several"], "a", "b") == "2 tensors cross at a+b; a bundle's cuts have one"
    assert "has the output 'a' already" in (reason(models["early"], "a") or "")
    assert "not one row of float scores" in (reason(models["scores"], "a") or "")
    split = models["scores"].split(models["scores"].cut_at("a"))
    with pytest.raises(NotBundledError, match="not one row"):
        write_split_bundle(models["scores"], split, tmp_path / "bundle", WISH)
    assert not (tmp_path / "bundle").exists()


def test_labels_of_the_wrong_number(tmp_path: Path) -> None:
    model = opened(specimen(tmp_path))
    split = model.split(model.cut_at("late"))
    wish = BundleWish(
        name="mine",
        version="1",
        preprocess=WISH.preprocess,
        labels=("one", "two"),
        source="mine.onnx",
    )
    with pytest.raises(NotBundledError, match="2 labels for 3 scores"):
        write_split_bundle(model, split, tmp_path / "bundle", wish)
