from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headtail_cloud.core.engine import StateError, StateRef
from headtail_cloud.core.task import DecodeStep, Fault, TailItem, TailOutput, TaskFailed
from headtail_cloud.core.work import Work
from headtail_cloud.engines.catalogue import Catalogue, TwiceServedError
from headtail_cloud.engines.loading import load_tails
from headtail_cloud.engines.served_tail import (
    NothingServedError,
    ServedTail,
    TailInput,
    TailInputError,
    served_tails,
)
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.open_inference.message import InferRequest
from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.errors import NoSuchBundleError, UnknownCutError
from headtail_models.bundle.specimen import noise, write_specimen


def crossing(bundle: Bundle, pictures: Array, cut: str = "early") -> Array:
    head = bundle.open_stage(bundle.head(cut))
    (tensor,) = head.run({head.inputs[0].name: pictures}).values()
    return tensor


def whole(bundle: Bundle, pictures: Array) -> Array:
    stage = bundle.open_stage(bundle.full())
    (logits,) = stage.run({stage.inputs[0].name: pictures}).values()
    return logits


def item(tail: ServedTail, tensor: Array, name: str = "1", **more: object) -> TailItem:
    fields: dict[str, object] = {"shape": tensor.shape, **more}
    return TailItem(
        request_id=name,
        segment=tail.segment,
        input=TailInput(payload=tensor.tobytes(), **fields),  # type: ignore[arg-type]
    )


def test_a_bundle_is_several_models(tails: dict[str, ServedTail]) -> None:
    assert list(tails) == ["specimen", "specimen:early", "specimen:late"]
    assert repr(tails["specimen:early"]).startswith("<ServedTail specimen:early@1.0")


def test_head_and_tail_give_what_the_whole_gives(
    specimen: Bundle, tails: dict[str, ServedTail]
) -> None:
    pictures = noise(3, seed=1)
    tensors, tail = crossing(specimen, pictures), tails["specimen:early"]
    engine = TailEngine(tails.values(), max_batch=4)
    tasks = [item(tail, tensors[at : at + 1], str(at)) for at in range(3)]
    results = engine.step([*tasks, item(tails["specimen"], pictures[:1], "whole")])
    outputs = {r.request_id: r.output for r in results if isinstance(r, TailOutput)}
    expected = whole(specimen, pictures)
    for at in range(3):
        answer = outputs[str(at)]
        assert isinstance(answer, dict)
        np.testing.assert_allclose(answer["logits"], expected[at : at + 1], atol=1e-5)
        assert answer["logits"].shape == (1, 3)
    answer = outputs["whole"]
    assert isinstance(answer, dict)
    np.testing.assert_allclose(answer["logits"], expected[:1], atol=1e-5)


def test_a_tensor_may_come_in_one_of_the_bundles_codecs(
    specimen: Bundle, tails: dict[str, ServedTail]
) -> None:
    tensor, codecs = crossing(specimen, noise(1, seed=2)), specimen.codecs("early")
    tail = tails["specimen:early"]
    codec = next(codec for codec in tail.codec_ids if codec.startswith("q8"))
    payload = codecs.new(codec).encode(tensor)
    coded = TailInput(payload=payload, shape=tensor.shape, codec=codec, quantiser="q8")
    tail.check(coded)
    engine = TailEngine([tail], max_batch=1)
    (result,) = engine.step([TailItem(request_id="1", segment=tail.segment, input=coded)])
    assert isinstance(result, TailOutput)
    (plain,) = engine.step([item(tail, tensor)])
    assert isinstance(plain, TailOutput)
    assert isinstance(result.output, dict)
    assert isinstance(plain.output, dict)
    np.testing.assert_allclose(result.output["logits"], plain.output["logits"], atol=0.1)


def test_a_payload_that_does_not_decode_fails_alone(
    specimen: Bundle, tails: dict[str, ServedTail]
) -> None:
    tensor, tail = crossing(specimen, noise(1, seed=3)), tails["specimen:early"]
    bad = TailItem(
        request_id="bad",
        segment=tail.segment,
        input=TailInput(payload=b"short", shape=tensor.shape),
    )
    results = TailEngine([tail], max_batch=2).step([bad, item(tail, tensor, "good")])
    assert {type(r): r.request_id for r in results} == {TaskFailed: "bad", TailOutput: "good"}
    (failed,) = (r for r in results if isinstance(r, TaskFailed))
    assert failed.fault is Fault.INPUT


def test_a_task_for_another_engine_fails(tails: dict[str, ServedTail]) -> None:
    step = DecodeStep(request_id="1", model="lm@1", token=0, position=0, blocks=())
    (result,) = TailEngine(tails.values(), max_batch=1).step([step])
    assert result == TaskFailed(request_id="1", message="not a tail")


def test_a_segment_that_is_not_served_fails_alone(tails: dict[str, ServedTail]) -> None:
    engine = TailEngine([tails["specimen:late"]], max_batch=1)
    missing = tails["specimen:early"]
    (result,) = engine.step([item(missing, np.zeros((1, 1), np.float32))])
    assert isinstance(result, TaskFailed)
    assert result.message == "no segment specimen:early@1.0#tail"
    assert engine.estimate(Work(items={missing.segment: 1})) == engine.estimate(Work())


def test_the_networks_own_outputs_where_they_are_asked_for(
    specimen: Bundle, tails: dict[str, ServedTail]
) -> None:
    tail = tails["specimen:early"]
    if not tail.raw_outputs:
        assert specimen.tail("early").outputs[0].name == tail.answer.name
    (result,) = TailEngine([tail], max_batch=1).step(
        [item(tail, crossing(specimen, noise(1, seed=4)), outputs=("logits",))]
    )
    assert isinstance(result, TailOutput)
    assert isinstance(result.output, dict)
    assert list(result.output) == ["logits"]


def test_estimates_are_linear_and_measured(specimen: Bundle) -> None:
    ticks = iter(range(100))
    (tail,) = served_tails(specimen, cut="early", timer=lambda: float(next(ticks)))
    engine = TailEngine([tail], max_batch=2)
    nothing = engine.estimate(Work())
    assert engine.estimate(Work(items={tail.segment: 1})) - nothing == pytest.approx(1.0)
    assert engine.estimate(Work(items={tail.segment: 2})) - nothing == pytest.approx(1.8)


def test_tails_leave_no_state(tails: dict[str, ServedTail]) -> None:
    engine = TailEngine(tails.values(), max_batch=1)
    with pytest.raises(StateError):
        engine.export(StateRef(blocks=(), positions=0))
    with pytest.raises(StateError):
        engine.import_(StateRef(blocks=(), positions=0), b"")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, "input 'other'"),
        ({"datatype": "UINT8"}, "as UINT8, not FP32"),
        ({"shape": (2, 4, 16, 16)}, "of shape"),
        ({"codec": "mp3"}, "codec 'mp3', allowed: raw"),
        ({"quantiser": "q8"}, "quantiser 'q8', not ''"),
        ({"outputs": ("boxes",)}, "no output 'boxes', only logits"),
    ],
)
def test_refuses_what_the_model_does_not_take(
    tails: dict[str, ServedTail], change: dict[str, object], message: str
) -> None:
    tail = tails["specimen:early"]
    fields = {"name": tail.input.name, "datatype": "FP32", "shape": (1, *tail.input.shape)}
    request = InferRequest(id="", payload=b"", **{**fields, **change})  # type: ignore[arg-type]
    with pytest.raises(TailInputError) as caught:
        tail.accept(request)
    assert message in caught.value.message


def test_loads_a_bundle_or_one_cut_of_it(specimen_path: Path, tmp_path: Path) -> None:
    both = load_tails([str(specimen_path), f"{specimen_path}:late"], cache_dir=tmp_path)
    assert [tail.name for tail in both] == ["specimen", "specimen:early", "specimen:late"]
    (late,) = load_tails([f"{specimen_path}:late"], cache_dir=tmp_path)
    assert late.name == "specimen:late"


def test_refuses_what_is_not_there(specimen_path: Path, tmp_path: Path) -> None:
    with pytest.raises(NoSuchBundleError):
        load_tails(["nothing"], cache_dir=tmp_path)
    with pytest.raises(NoSuchBundleError):
        load_tails([":late"], cache_dir=tmp_path)
    with pytest.raises(UnknownCutError):
        load_tails([f"{specimen_path}:nowhere"], cache_dir=tmp_path)
    with pytest.raises(NothingServedError):
        load_tails([], cache_dir=tmp_path)


def test_the_newest_version_is_meant(specimen: Bundle, tmp_path: Path) -> None:
    newer = open_bundle(write_specimen(tmp_path / "newer", version="1.10"))
    old = open_bundle(write_specimen(tmp_path / "old", version="1.9"))
    catalogue = Catalogue(t for b in (newer, old) for t in served_tails(b, cut="late"))
    found = catalogue.find("specimen:late")
    assert found is not None
    assert found.version == "1.10"
    assert catalogue.versions("specimen:late") == ["1.9", "1.10"]
    assert catalogue.find("specimen:late", "1.9") is not None
    assert catalogue.find("specimen:late", "2") is None
    assert catalogue.find("other") is None


def test_one_name_for_two_bundles_is_refused(tails: dict[str, ServedTail]) -> None:
    tail = tails["specimen:late"]
    assert len(Catalogue([tail, tail]).tails) == 1
    with pytest.raises(TwiceServedError, match="stands for two bundles"):
        Catalogue([tail, replace(tail, digest=b"another")])
