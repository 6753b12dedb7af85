"""The built-in bundle of the real weights, on a frame of the real clip."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_models import zoo
from headtail_models.assets import fetch
from headtail_models.assets.errors import UnreachableError
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.head_chain import HeadChain
from headtail_models.task import DetectAnswer, task_for

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    try:
        path = zoo.build("yolov3-tiny-coco", tmp_path_factory.mktemp("zoo") / "bundle")
    except UnreachableError as error:
        pytest.skip(str(error))
    return open_bundle(path)


@pytest.fixture(scope="module")
def frame() -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    try:
        clip = fetch("bikes")["bikes.mp4"]
    except UnreachableError as error:
        pytest.skip(str(error))
    capture = cv2.VideoCapture(str(clip))
    capture.set(cv2.CAP_PROP_POS_FRAMES, 125)
    done, picture = capture.read()
    capture.release()
    assert done
    return picture.astype(np.uint8, copy=False)


def test_it_is_the_network_of_the_paper(bundle: Bundle) -> None:
    manifest = bundle.manifest
    plain = [cut for cut in manifest.cuts if not cut.coders]
    assert [cut.name for cut in plain] == [f"L{layer}" for layer in range(9)]
    assert manifest.full.macs == 2_782_480_896
    assert sum(entry.size_bytes for entry in manifest.files) < 41_000_000
    assert len(manifest.labels) == 80
    for cut in plain:
        assert cut.head.macs + cut.tail.macs == manifest.full.macs
        assert len(cut.measured) == 4
    assert manifest.full_value is not None
    assert manifest.full_value >= 0.42


def test_the_trained_cuts_are_light_and_measured(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.default_cut, manifest.default_codec) == ("bottleneck", "rans")
    for name, share in (("bottleneck", 0.20), ("light", 0.08)):
        cut = bundle.cut(name)
        # The context model that the device runs is counted.
        assert cut.device_macs <= share * manifest.full.macs
        assert {measured.codec for measured in cut.measured} == set(cut.codecs)
        sizes = [one.mean_bytes for one in cut.measured if one.codec in cut.coders]
        assert max(sizes) < 7000


def test_a_frame_through_the_bottleneck(
    bundle: Bundle, frame: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
) -> None:
    task = task_for(bundle.manifest)
    image, geometry = task.prepare(frame)
    cut = bundle.cut("bottleneck")
    run = HeadChain(cut, bundle.open_stage).run(image)
    assert run.tensor is not None  # there is something: the filter lets it pass
    codec = bundle.codecs("bottleneck").new("rans")
    payload = codec.encode(run.tensor)
    assert len(payload) < 6000
    arrived = codec.decode(payload, run.tensor.shape)
    outputs = bundle.open_stage(cut.tail).run({cut.tensor.name: arrived})
    answer = task.answer(task.finish(outputs)[0], geometry)
    assert isinstance(answer, DetectAnswer)
    assert {box.label for box in answer.boxes[:2]} == {"person", "bicycle"}


def test_it_is_the_same_wherever_it_is_built(bundle: Bundle, tmp_path: Path) -> None:
    assert open_bundle(zoo.build(bundle.manifest.name, tmp_path / "again")).digest == bundle.digest


def test_a_frame_at_every_cut(
    bundle: Bundle, frame: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
) -> None:
    task = task_for(bundle.manifest)
    image, geometry = task.prepare(frame)
    whole = bundle.open_stage(bundle.full()).run({"image": image})
    for cut in bundle.manifest.cuts:
        if cut.coders:
            continue
        crossing = bundle.open_stage(cut.head).run({"image": image})
        split = bundle.open_stage(cut.tail).run(crossing)
        for name, output in whole.items():
            np.testing.assert_allclose(split[name], output, atol=1e-4)
    # A policeman on a bicycle.
    answer = task.answer(task.finish(whole)[0], geometry)
    assert isinstance(answer, DetectAnswer)
    assert {box.label for box in answer.boxes[:3]} == {"person", "bicycle"}
