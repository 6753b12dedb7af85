"""The manifest: its schema, and whether its parts fit each other."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headtail_models.bundle.consistency import check_consistency
from headtail_models.bundle.errors import (
    DuplicateEntryError,
    FutureSchemaError,
    InconsistentManifestError,
    InvalidManifestError,
    OversizedBundleError,
    UnsafePathError,
)
from headtail_models.bundle.limits import Limits
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Coder,
    Cut,
    DetectTask,
    FileEntry,
    Manifest,
    MeasuredPicture,
    OperatingPoint,
    QuantiserTable,
    Segment,
    TensorSpec,
    YoloScale,
    decode_manifest,
    encode_manifest,
)
from headtail_models.bundle.specimen import write_stages


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("stages")
    stages = write_stages(folder)
    return replace(stages, files=tuple(_listed(path) for path in sorted(folder.iterdir())))


def _listed(path: Path) -> FileEntry:
    return FileEntry(path=path.name, size_bytes=path.stat().st_size, sha256="0" * 64)


def _fields(manifest: Manifest) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(encode_manifest(manifest))
    return fields


def test_comes_back_as_it_was(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest
    check_consistency(manifest)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"schema": "1"}',
        b'{"schema": 1}',
        b'{"schema": 1.5}',
        b'{"schema": 0}',
        b'{"schema": -1}',
        b"\xff\xfe{\x00}\x00",
        b'{"schema": 1, "name": "\xff"}',
        b"[" * 100_000,
        b'{"schema": 1, "task": ' + b'{"a":' * 100_000,
        b"PK\x03\x04",
    ],
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(InvalidManifestError):
        decode_manifest(data)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_manifest_or_a_typed_error(data: bytes) -> None:
    with pytest.raises(InvalidManifestError):
        decode_manifest(data)


def test_a_later_schema_is_told_apart(manifest: Manifest) -> None:
    fields = _fields(manifest) | {"schema": SCHEMA + 1, "unheard": "of"}
    with pytest.raises(FutureSchemaError) as caught:
        decode_manifest(msgspec.json.encode(fields))
    assert caught.value.facts["schema"] == SCHEMA + 1
    assert "Upgrade" in caught.value.advice


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"unknown": 1}, "unknown"),
        ({"labels": "left"}, "$.labels"),
        ({"labels": ["left\n"]}, "$.labels[0]"),
        ({"description": "\x1b[2J"}, "$.description"),
        ({"description": "x" * 1001}, "$.description"),
        ({"name": "../x"}, "$.name"),
        ({"name": "x\n"}, "$.name"),
        ({"name": ""}, "$.name"),
        ({"version": "1.0-beta"}, "$.version"),
        ({"version": "1" * 10}, "$.version"),
        ({"task": {"type": "generate"}}, "$.task"),
        ({"task": {"type": "classify"}}, "output"),
        ({"preprocess": {"kind": "letterbox", "width": 0, "height": 16}}, "width"),
        ({"preprocess": {"kind": "letterbox", "width": 1 << 20, "height": 16}}, "width"),
        ({"files": [{"path": "a", "size_bytes": -1, "sha256": "0" * 64}]}, "size_bytes"),
        ({"files": [{"path": "a", "size_bytes": 1, "sha256": "0" * 63}]}, "sha256"),
        ({"files": [{"path": "a", "size_bytes": 1, "sha256": "0" * 64 + "\n"}]}, "sha256"),
        ({"files": [{"path": "a", "size_bytes": 1, "sha256": "A" * 64}]}, "sha256"),
        ({"full_value": "high"}, "$.full_value"),
        ({"cuts": None}, "$.cuts"),
    ],
)
def test_a_wrong_field_is_named(manifest: Manifest, change: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidManifestError, match=r"manifest\.json") as caught:
        decode_manifest(msgspec.json.encode(_fields(manifest) | change))
    assert where in caught.value.message


@pytest.mark.parametrize("shape", [[], [0], [1] * 6, [65_537], [1.5], ["N"]])
def test_a_shape_that_no_tensor_has(shape: list[object]) -> None:
    data = msgspec.json.encode({"name": "x", "dtype": "float32", "shape": shape})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(data, type=TensorSpec)


def test_a_number_that_is_none_does_not_survive_writing(manifest: Manifest) -> None:
    table = QuantiserTable(low=(float("nan"),), high=(1.0,))
    cut = replace(manifest.cuts[0], quantisers={"q8": table})
    with pytest.raises(InvalidManifestError, match=r"cuts\[0\]"):
        decode_manifest(encode_manifest(replace(manifest, cuts=(cut,))))


def _with_cut(manifest: Manifest, **changes: object) -> Manifest:
    return replace(manifest, cuts=(replace(manifest.cuts[0], **changes), manifest.cuts[1]))


def _with_segment(manifest: Manifest, *, until: str = "late", **changes: object) -> Manifest:
    segment = manifest.cuts[0].segment
    assert segment is not None
    stage = replace(segment.stage, **changes)
    return _with_cut(manifest, segment=Segment(until=until, stage=stage))


def _spec(name: str = "early", *shape: int) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=shape or (8, 16, 16))


def _detect(manifest: Manifest, *scales: YoloScale) -> Manifest:
    return replace(manifest, task=DetectTask(scales=scales))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: replace(m, labels=()), "no labels"),
        (lambda m: replace(m, labels=("one",)), "output 'logits' has shape"),
        (lambda m: replace(m, default_cut="middle"), "default cut 'middle'"),
        (lambda m: replace(m, cuts=()), "default cut 'late'"),
        (lambda m: replace(m, default_codec="jpeg"), "default codec 'jpeg'"),
        (lambda m: replace(m, cuts=m.cuts + m.cuts[:1]), "cut 'early' is there 2 times"),
        (lambda m: _with_cut(m, name="Late"), "cut 'late' is there 2 times"),
        (lambda m: _with_cut(m, name="input"), "no cut may be called 'input'"),
        (lambda m: replace(m, task=ClassifyTask(output="scores")), "lacks the task's output"),
        (lambda m: _detect(m), "the task has no outputs"),
        (
            lambda m: _detect(m, YoloScale(output="logits", stride=8, anchors=((1.0, 2.0),))),
            "need 8 channels",
        ),
        (
            lambda m: replace(m, preprocess=replace(m.preprocess, width=17)),
            "not one frame of shape",
        ),
        (
            lambda m: replace(m, full=replace(m.full, file="whole.onnx")),
            "stage 'whole.onnx' is not among the files",
        ),
        (
            lambda m: replace(m, full=replace(m.full, file="stages/full.onnx")),
            "does not lie at the top",
        ),
        (lambda m: replace(m, full=replace(m.full, outputs=())), "lacks a tensor"),
        (
            lambda m: replace(m, full=replace(m.full, outputs=m.full.outputs * 2)),
            "lacks a tensor or has one twice",
        ),
        (
            lambda m: _with_cut(m, head=replace(m.cuts[0].head, inputs=(_spec("photo"),))),
            "cut 'early': the head's inputs",
        ),
        (
            lambda m: _with_cut(m, tail=replace(m.cuts[0].tail, outputs=(_spec("scores", 3),))),
            "cut 'early': the tail's outputs",
        ),
        (
            lambda m: _with_cut(m, tail=replace(m.cuts[0].tail, inputs=(_spec("late"),))),
            "the head's output is not the tail's input",
        ),
        (
            lambda m: _with_cut(m, tail=replace(m.cuts[0].tail, inputs=(_spec("early", 9, 1),))),
            "the head's output is not the tail's input",
        ),
        (
            lambda m: _with_cut(m, head=replace(m.cuts[0].head, outputs=(_spec(), _spec("two")))),
            "2 tensors cross",
        ),
        (lambda m: _with_cut(m, codecs=()), "there is no codec"),
        (lambda m: _with_cut(m, codecs=("raw", "raw")), "or one is there twice"),
        (lambda m: _with_cut(m, codecs=("gzip",)), "codec 'gzip': unknown codec"),
        (lambda m: _with_cut(m, codecs=("jpeg",)), "codec 'jpeg'"),
        (lambda m: _with_cut(m, quantisers={}), "codec 'q8': q8 needs float32 and a quantiser"),
        (
            lambda m: _with_cut(m, quantisers={"q8": QuantiserTable(low=(0.0,), high=(1.0,))}),
            "quantiser 'q8' has 1 channels, the tensor 8",
        ),
        (
            lambda m: _with_cut(m, quantisers={"q8": QuantiserTable(low=(1.0,), high=(0.0,))}),
            "quantiser 'q8': ranges must be finite",
        ),
        (
            lambda m: _with_cut(m, quantisers={"q8": QuantiserTable(low=(0.0,), high=(1e300,))}),
            "quantiser 'q8': ranges must be finite",
        ),
        (
            lambda m: _with_cut(m, quantisers={"q8": QuantiserTable(low=(), high=())}),
            "quantiser 'q8': ranges of shape",
        ),
        (
            lambda m: _with_segment(m, until="nowhere"),
            "cut 'early': its segment leads to 'nowhere', which is no cut",
        ),
        (
            lambda m: _with_segment(m, until="early"),
            "cut 'early': its segment does not lead on, but to 'early'",
        ),
        (
            lambda m: _with_segment(m, inputs=(_spec("late"),)),
            "cut 'early': its segment's inputs are not the tail's",
        ),
        (
            lambda m: _with_segment(m, outputs=(_spec("late", 9, 1),)),
            "cut 'early': its segment's outputs are not the inputs of 'late''s tail",
        ),
        (
            lambda m: _with_segment(m, macs=1),
            "cut 'early': its segment and 'late''s tail do not add up to its tail",
        ),
        (
            lambda m: _with_segment(m, file="nothing.onnx"),
            "stage 'nothing.onnx' is not among the files",
        ),
    ],
)
def test_a_contradiction_is_named(manifest: Manifest, change: Any, told: str) -> None:
    with pytest.raises(InconsistentManifestError) as caught:
        check_consistency(decode_manifest(encode_manifest(change(manifest))))
    assert told in caught.value.message


def test_segments_lead_in_no_circle(manifest: Manifest) -> None:
    early, late = manifest.cuts
    assert early.segment is not None
    back = replace(early.segment, until="early")
    cuts = (early, replace(late, segment=back))
    with pytest.raises(InconsistentManifestError, match="'late': its segment does not lead on"):
        check_consistency(replace(manifest, cuts=cuts))


def test_a_manifest_without_segments_says_nothing_of_them(manifest: Manifest) -> None:
    early, late = manifest.cuts
    assert b"segment" in encode_manifest(manifest)
    plain = replace(manifest, cuts=(replace(early, segment=None), late))
    assert b'"segment"' not in encode_manifest(plain)
    assert decode_manifest(encode_manifest(plain)) == plain


def test_only_the_first_contradictions_are_told(manifest: Manifest) -> None:
    cuts = tuple(replace(manifest.cuts[1], name=f"c{at}", codecs=()) for at in range(20))
    with pytest.raises(InconsistentManifestError, match="and 13 more") as caught:
        check_consistency(replace(manifest, cuts=cuts))
    assert len(caught.value.facts["problems"]) == 21  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["../x", "/x", "a\\b", "C:/x", "manifest.json", "Manifest.Sig"])
def test_a_path_that_no_bundle_may_list(manifest: Manifest, path: str) -> None:
    entry = FileEntry(path=path, size_bytes=0, sha256="0" * 64)
    with pytest.raises(UnsafePathError) as caught:
        check_consistency(replace(manifest, files=(*manifest.files, entry)))
    assert caught.value.facts["path"] == path


def test_a_file_that_is_listed_twice(manifest: Manifest) -> None:
    with pytest.raises(DuplicateEntryError, match=r"full\.onnx"):
        check_consistency(replace(manifest, files=manifest.files * 2))


def test_more_than_the_reader_takes(manifest: Manifest) -> None:
    with pytest.raises(OversizedBundleError, match="5 files"):
        check_consistency(manifest, limits=Limits(max_files=5))
    with pytest.raises(OversizedBundleError, match="1000 bytes"):
        check_consistency(manifest, limits=Limits(max_total_bytes=1000))


def test_the_manifest_finds_its_parts(manifest: Manifest) -> None:
    cut = manifest.cut("early")
    assert isinstance(cut, Cut)
    assert cut.tensor == _spec()
    assert manifest.cut("nowhere") is None
    assert [stage.file for stage in manifest.stages()] == [
        "full.onnx",
        "head-early.onnx",
        "tail-early.onnx",
        "segment-early.onnx",
        "head-late.onnx",
        "tail-late.onnx",
    ]
    table = cut.quantisers["q8"].quantiser()
    assert table.channels == 8
    assert table.low.dtype == np.float32


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("gated")
    stages = write_stages(folder, gated=True)
    return replace(stages, files=tuple(_listed(path) for path in sorted(folder.iterdir())))


def test_gates_and_coders_come_back_as_they_were(gated: Manifest) -> None:
    assert decode_manifest(encode_manifest(gated)) == gated
    check_consistency(gated)
    cut = gated.cut("code")
    assert cut is not None
    assert [stage.file for stage in cut.stages()] == [
        "trunk-presence.onnx",
        "branch-presence.onnx",
        "trunk-guess.onnx",
        "branch-guess.onnx",
        "head-code.onnx",
        "tail-code.onnx",
    ]
    assert cut.device_macs == sum(stage.macs for stage in cut.stages()) - cut.tail.macs
    assert [gate.name for gate in cut.exits()] == ["guess"]
    assert cut.exits()[0].point("eager") is not None
    assert cut.exits()[0].point("off") is None


def test_a_gate_may_look_where_the_one_before_did(gated: Manifest) -> None:
    cut = gated.cuts[2]
    second = replace(cut.gates[0], name="again", trunk=None)
    odd = replace(cut, gates=(cut.gates[0], second, cut.gates[1]))
    check_consistency(replace(gated, cuts=(*gated.cuts[:2], odd)))


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((), "0 steps for 6 channels"),
        ((1.0, 2.0), "2 steps for 6 channels"),
        ((0.0,), "finite and positive"),
        ((-1.0,), "finite and positive"),
        ((1e300,), "finite and positive"),
        ((1e-300,), "finite and positive"),
    ],
)
def test_steps_that_make_no_sense(steps: tuple[float, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Coder(file="x", steps=steps).scales(6)


def test_steps_are_for_each_channel() -> None:
    assert Coder(file="x", steps=(0.5,)).scales(3).tolist() == [0.5] * 3
    assert Coder(file="x", steps=(0.5, 1.0)).scales(2).tolist() == [0.5, 1.0]


def _gates(manifest: Manifest, *, at: int, **changes: object) -> Manifest:
    """The gated specimen with another filter (0) or exit (1)."""
    cut = manifest.cuts[2]
    gates = [*cut.gates]
    gates[at] = replace(gates[at], **changes)
    return replace(manifest, cuts=(*manifest.cuts[:2], replace(cut, gates=tuple(gates))))


def _coded(manifest: Manifest, **changes: object) -> Manifest:
    cut = manifest.cuts[2]
    return replace(manifest, cuts=(*manifest.cuts[:2], replace(cut, **changes)))


def _coder(manifest: Manifest, **changes: object) -> Manifest:
    coders = manifest.cuts[2].coders
    return _coded(manifest, coders=coders | {"rans": replace(coders["rans"], **changes)})


def _row(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=shape)


def _branch(manifest: Manifest, at: int, *outputs: TensorSpec) -> Manifest:
    branch = manifest.cuts[2].gates[at].branch
    return _gates(manifest, at=at, branch=replace(branch, outputs=outputs))


def test_what_a_picture_costs_is_told_and_changes_no_digest_where_nobody_knows(
    manifest: Manifest,
) -> None:
    known = MeasuredPicture(codec="jpeg", quality=80, value=0.9, drop=0.01, mean_bytes=1e4)
    told = replace(manifest, pictures=(known,))
    assert decode_manifest(encode_manifest(told)) == told
    assert b"pictures" not in encode_manifest(manifest)
    assert b"by_class" not in encode_manifest(manifest)


def _points(manifest: Manifest, *points: OperatingPoint) -> Manifest:
    return _gates(manifest, at=1, points=points, default_point="a")


def _point(name: str, threshold: float, coverage: float = 0.5) -> OperatingPoint:
    return OperatingPoint(name=name, threshold=threshold, coverage=coverage, drop=0.0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda m: _coded(m, head=m.cuts[1].head),
            "the head's inputs are not what gate 'guess' leaves",
        ),
        (
            lambda m: _coded(m, gates=m.cuts[2].gates[1:]),
            "the inputs of the trunk of gate 'guess' are not the full model's",
        ),
        (
            lambda m: _gates(m, at=1, trunk=None),
            "the inputs of the branch of gate 'guess' are not what gate 'presence' leaves",
        ),
        (
            lambda m: _gates(
                m,
                at=0,
                trunk=replace(m.cuts[2].gates[0].trunk, outputs=(_row("a", 1), _row("b", 1))),
            ),
            "the trunk of gate 'presence' has 2 outputs",
        ),
        (lambda m: _gates(m, at=1, name="Presence"), "gate 'presence' is there 2 times"),
        (lambda m: _branch(m, 0, _row("presence", 3)), "3 logits, a filter has two"),
        (lambda m: _branch(m, 0, _row("presence", 2, 1)), "not one row of logits"),
        (lambda m: _branch(m, 1), "not one row of logits"),
        (lambda m: _branch(m, 1, _row("a", 3), _row("b", 3)), "not one row of logits"),
        (lambda m: _branch(m, 1, _row("guess", 2)), "2 logits for 3 classes"),
        (lambda m: _gates(m, at=1, goes_on=True), "3 logits for 3 classes and to go on"),
        (lambda m: _gates(m, at=1, classes=(0, 1)), "3 logits for 2 classes"),
        (lambda m: _gates(m, at=1, classes=(0, 1, 3)), "class 3 of 3 labels"),
        (lambda m: _gates(m, at=1, classes=(0, 1, 1)), "a class is there twice"),
        (lambda m: _gates(m, at=1, default_point="bold"), "the default point 'bold'"),
        (lambda m: _gates(m, at=1, points=()), "the default point 'careful'"),
        (lambda m: _points(m, _point("a", 0.5), _point("a", 0.6)), "is there twice"),
        (lambda m: _points(m, _point("a", 0.5), _point("off", 0.6)), "or called 'off'"),
        (lambda m: _points(m, _point("a", 0.5), _point("b", 0.4)), "not in the order"),
        (lambda m: _points(m, _point("a", 1.5)), "it is closed, yet covers 0.5"),
        (
            lambda m: _points(m, replace(_point("a", 0.5), by_class=(0.5, 0.6))),
            "at 'a' 2 thresholds for 3 classes",
        ),
        (
            lambda m: _coded(
                m,
                gates=(
                    *m.cuts[2].gates,
                    replace(m.cuts[2].gates[1], name="b", trunk=None),
                ),
            ),
            "at 'eager' more than all frames leave",
        ),
        (
            lambda m: _coded(
                m,
                gates=(
                    *m.cuts[2].gates,
                    replace(m.cuts[2].gates[1], name="b", trunk=None, default_point="eager"),
                ),
            ),
            "its exits have different operating points",
        ),
        (
            lambda m: replace(
                m,
                task=DetectTask(
                    scales=(YoloScale(output="logits", stride=8, anchors=((1.0, 2.0),)),)
                ),
            ),
            "a detector has no exits",
        ),
        (
            lambda m: _gates(
                m, at=0, branch=replace(m.cuts[2].gates[0].branch, file="elsewhere.onnx")
            ),
            "stage 'elsewhere.onnx' is not among the files",
        ),
        (lambda m: _coder(m, file="nowhere.rans"), "'nowhere.rans' is not among the files"),
        (lambda m: _coder(m, bits=4), "neither steps nor bits, or both"),
        (lambda m: _coder(m, steps=()), "neither steps nor bits, or both"),
        (lambda m: _coder(m, steps=(1.0, 1.0)), "2 steps for 6 channels"),
        (lambda m: _coder(m, steps=(), bits=4), "there is no quantiser table 'rans'"),
        (lambda m: _coded(m, codecs=("raw", "rans")), "'rans-coarse': it is not among the cut's"),
        (lambda m: _coded(m, coders={}), "codec 'rans': unknown codec"),
        (
            lambda m: _coded(m, codecs=(*m.cuts[2].codecs, "rans+zstd")),
            "codec 'rans+zstd': unknown codec",
        ),
        (
            lambda m: replace(
                m,
                files=tuple(
                    replace(one, size_bytes=2**30) if one.path == "code.rans" else one
                    for one in m.files
                ),
            ),
            "'code.rans' has 1073741824 bytes",
        ),
        (
            lambda m: _coded(
                m,
                head=replace(m.cuts[2].head, outputs=(replace(m.cuts[2].tensor, dtype="uint8"),)),
            ),
            "the tensor is uint8, only float32 can be coded",
        ),
        (
            lambda m: _coded(m, head=replace(m.cuts[2].head, outputs=(_row("code", 6, 2, 2, 2),))),
            "from 2 to 4 axes can be coded",
        ),
        (
            lambda m: _coded(
                m, head=replace(m.cuts[2].head, outputs=(_row("code", 6, 1000, 1000),))
            ),
            "more than 262144 elements",
        ),
    ],
)
def test_a_contradiction_of_gates_or_coders_is_named(
    gated: Manifest, change: Any, told: str
) -> None:
    with pytest.raises(InconsistentManifestError) as caught:
        check_consistency(decode_manifest(encode_manifest(change(gated))))
    assert told in "; ".join(caught.value.facts["problems"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda m: _gates(m, at=1, criterion="mood"), "criterion"),
        (lambda m: _gates(m, at=1, temperature=0.0), "temperature"),
        (lambda m: _gates(m, at=1, classes=(-1,)), "classes"),
        (lambda m: _gates(m, at=0, threshold=1.5), "threshold"),
        (lambda m: _gates(m, at=0, recall=-0.1), "recall"),
        (lambda m: _points(m, _point("a", 2.5)), "threshold"),
        (lambda m: _points(m, _point("a", 0.5, 1.5)), "coverage"),
        (lambda m: _points(m, *[_point("a", 0.5)] * 65), "points"),
        (lambda m: _coded(m, gates=m.cuts[2].gates * 9), "gates"),
        (lambda m: _coded(m, coders={"q8": Coder(file="x", bits=4)}), "coders"),
        (lambda m: _coded(m, coders={"rans-": Coder(file="x", bits=4)}), "coders"),
        (lambda m: _coder(m, bits=9), "bits"),
    ],
)
def test_a_wrong_field_of_a_gate_or_coder_is_named(
    gated: Manifest, change: Any, where: str
) -> None:
    with pytest.raises(InvalidManifestError, match=where):
        decode_manifest(encode_manifest(change(gated)))
