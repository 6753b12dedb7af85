"""Where a frame is computed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_device.placement import (
    FixedPolicy,
    Local,
    LocalPolicy,
    Observation,
    Offload,
    Split,
    remote_for,
)
from headtail_models.bundle.manifest import (
    ClassifyTask,
    Cut,
    Manifest,
    Preprocess,
    StageEntry,
    TensorSpec,
)

SPLIT = Split(cut="a", codec="q8+zstd")
GOOD = Observation(edge_ready=True, free_window=2, in_flight=1, retry_in_s=0.0, remaining_s=1.0)


def test_the_edge_is_used_while_it_can_be_had() -> None:
    assert FixedPolicy(remote=SPLIT).place(GOOD) == SPLIT
    offload = Offload(codec="webp", quality=80)
    assert FixedPolicy(remote=offload).place(GOOD) == offload
    assert offload.cut == "input"


@pytest.mark.parametrize(
    "seen",
    [
        replace(GOOD, edge_ready=False),
        replace(GOOD, free_window=0),
        replace(GOOD, retry_in_s=0.1),
        replace(GOOD, remaining_s=0.0),
    ],
)
def test_else_the_device_answers_degraded(seen: Observation) -> None:
    assert FixedPolicy(remote=SPLIT).place(seen) == Local(degraded=True)


@given(st.booleans(), st.integers(0, 9), st.floats(0, 9), st.floats(-9, 9))
def test_local_stays_local(ready: bool, window: int, retry_in_s: float, remaining_s: float) -> None:
    observation = Observation(
        edge_ready=ready,
        free_window=window,
        in_flight=0,
        retry_in_s=retry_in_s,
        remaining_s=remaining_s,
    )
    assert LocalPolicy().place(observation) == Local(degraded=False)


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
