"""What the device computes, with a tiny real bundle."""

import numpy as np
import pytest

from device_doubles import tiny_bundle
from headtail_device.head import CodecNotAllowedError, HeadRunner
from headtail_device.placement import Offload, Split
from headtail_fabric.clock import FakeClock, MonotonicClock
from headtail_fabric.codec import codec_for
from headtail_fabric.wire import DType, TensorInfo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.errors import UnknownCutError
from headtail_models.task import AnswerError, ClassifyAnswer, task_for

BRIGHT = np.full((20, 30, 3), 250, dtype=np.uint8)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(tiny_bundle(tmp_path_factory.mktemp("bundle")))


@pytest.fixture
def head(bundle: Bundle) -> HeadRunner:
    return HeadRunner(bundle, threads=1, clock=FakeClock())


def best(answer: object) -> str:
    assert isinstance(answer, ClassifyAnswer)
    return answer.top[0][0]


def test_the_whole_model_answers(head: HeadRunner, bundle: Bundle) -> None:
    assert best(head.whole(BRIGHT)) == "bright"
    assert head.digest == bundle.digest
    assert repr(head) == "<HeadRunner tiny-1.0 opened=['full']>"


@pytest.mark.parametrize(("codec", "size"), [("raw", 192), ("q8", 48), ("q8+zstd", None)])
def test_head_and_tail_together_are_the_whole_model(
    head: HeadRunner, bundle: Bundle, codec: str, size: int | None
) -> None:
    encoded = head.encode(BRIGHT, Split(cut="middle", codec=codec))
    (info,) = encoded.tensors
    assert (info.name, info.shape, info.codec) == ("middle", (1, 3, 4, 4), codec)
    assert info.quantiser == ("" if codec == "raw" else "q8")
    if size is not None:
        assert encoded.payload_bytes == size

    quantiser = bundle.quantiser("middle", "q8")
    decoder = codec_for(info.codec, dtype=info.dtype, quantiser=quantiser)
    crossed = decoder.decode(encoded.payloads[0], info.shape)
    outputs = bundle.open_stage(bundle.tail("middle")).run({"middle": crossed})
    (finished,) = task_for(bundle.manifest).finish(outputs)
    sent = codec_for("raw").encode(finished["logits"])
    reply = TensorInfo(name="logits", dtype=DType.FLOAT32, shape=(2,), codec="raw")
    answer = head.decode((reply,), (bytes(sent),), encoded.geometry)
    assert best(answer) == best(head.whole(BRIGHT)) == "bright"


@pytest.mark.parametrize("codec", ["jpeg", "webp"])
def test_a_picture_is_sent_whole(head: HeadRunner, codec: str) -> None:
    encoded = head.encode(BRIGHT, Offload(codec=codec, quality=80))
    (info,) = encoded.tensors
    assert info == TensorInfo(name="input", dtype=DType.UINT8, shape=(1, 20, 30, 3), codec=codec)
    decoded = codec_for(codec, dtype=DType.UINT8).decode(encoded.payloads[0], info.shape)
    assert decoded.mean() == pytest.approx(250, abs=3)
    assert (encoded.geometry.picture_width, encoded.geometry.picture_height) == (30, 20)


def test_the_costs_are_measured(bundle: Bundle) -> None:
    head = HeadRunner(bundle, threads=1, clock=MonotonicClock())
    encoded = head.encode(BRIGHT, Split(cut="middle", codec="raw"))
    assert min(encoded.prepare_s, encoded.compute_s, encoded.encode_s) > 0
    assert encoded.head_s == encoded.prepare_s + encoded.compute_s + encoded.encode_s


def test_warming_up_opens_what_is_needed(head: HeadRunner) -> None:
    head.warm_up(way=Split(cut="middle", codec="q8"), whole=False)
    assert repr(head) == "<HeadRunner tiny-1.0 opened=['middle']>"
    head.warm_up(way=None, whole=True)
    assert repr(head) == "<HeadRunner tiny-1.0 opened=['middle', 'full']>"


def test_a_cut_that_is_not_there_says_which_are(head: HeadRunner) -> None:
    with pytest.raises(UnknownCutError, match="middle"):
        head.warm_up(way=Split(cut="nosuch", codec="raw"), whole=False)


@pytest.mark.parametrize(
    ("way", "allowed"),
    [
        (Split(cut="middle", codec="q4"), "raw, q8, q8\\+zstd"),
        (Split(cut="middle", codec="jpeg"), "raw, q8, q8\\+zstd"),
        (Offload(codec="raw", quality=50), "jpeg, webp"),
    ],
)
def test_a_codec_that_is_not_allowed_says_which_are(
    head: HeadRunner, way: Split | Offload, allowed: str
) -> None:
    with pytest.raises(CodecNotAllowedError, match=f"allowed there: {allowed}"):
        head.encode(BRIGHT, way)


def test_an_answer_that_does_not_fit_the_bundle_is_refused(head: HeadRunner) -> None:
    encoded = head.encode(BRIGHT, Split(cut="middle", codec="raw"))
    info = TensorInfo(name="logits", dtype=DType.FLOAT32, shape=(3,), codec="raw")
    with pytest.raises(AnswerError):
        head.decode((info,), (bytes(12),), encoded.geometry)
