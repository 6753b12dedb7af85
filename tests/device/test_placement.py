"""Where a frame is computed."""

import pytest

from headtail_device.placement import Offload, Split, remote_for
from headtail_models.bundle.manifest import (
    ClassifyTask,
    Cut,
    Manifest,
    Preprocess,
    StageEntry,
    TensorSpec,
)


def manifest() -> Manifest:
    spec = TensorSpec(name="t", dtype="float32", shape=(3,))
    stage = StageEntry(file="f.onnx", inputs=(spec,), outputs=(spec,), macs=1)
    cuts = tuple(
        Cut(name=name, head=stage, tail=stage, codecs=codecs)
        for name, codecs in (("early", ("raw", "q8")), ("late", ("q4", "raw")))
    )
    return Manifest(
        schema=1,
        name="m",
        version="1",
        task=ClassifyTask(output="t"),
        labels=("a",),
        preprocess=Preprocess(kind="letterbox", width=4, height=4),
        full=stage,
        cuts=cuts,
        default_cut="early",
        default_codec="q8",
        files=(),
    )


@pytest.mark.parametrize(
    ("cut", "codec", "way"),
    [
        ("", "", Split(cut="early", codec="q8")),
        ("", "raw", Split(cut="early", codec="raw")),
        ("late", "", Split(cut="late", codec="q4")),
        ("late", "raw", Split(cut="late", codec="raw")),
        ("nosuch", "", Split(cut="nosuch", codec="q8")),
        ("input", "", Offload(codec="jpeg", quality=60)),
        ("input", "webp", Offload(codec="webp", quality=60)),
    ],
)
def test_what_is_not_chosen_is_the_bundles_default(
    cut: str, codec: str, way: Split | Offload
) -> None:
    assert remote_for(manifest(), cut=cut, codec=codec, quality=60) == way
