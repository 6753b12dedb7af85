"""What the device computes, with a tiny real bundle."""

from dataclasses import replace

import numpy as np
import pytest

from device_doubles import tiny_bundle
from headtail_device.head import Encoded, Ended, HeadRunner
from headtail_device.ledger import Outcome
from headtail_device.placement import Offload, Split
from headtail_fabric.clock import FakeClock, MonotonicClock
from headtail_fabric.codec import codec_for
from headtail_fabric.wire import DType, TensorInfo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.errors import (
    CodecNotAllowedError,
    UnknownCutError,
    UnknownPointError,
)
from headtail_models.bundle.manifest import StageEntry
from headtail_models.bundle.specimen import write_specimen
from headtail_models.head_chain import GateSettings
from headtail_models.stage import OnnxStage
from headtail_models.task import AnswerError, ClassifyAnswer, Picture, task_for

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
    assert encoded.geometry is not None
    assert (encoded.geometry.picture_width, encoded.geometry.picture_height) == (30, 20)


def test_the_costs_are_measured(bundle: Bundle) -> None:
    head = HeadRunner(bundle, threads=1, clock=MonotonicClock())
    encoded = head.encode(BRIGHT, Split(cut="middle", codec="raw"))
    assert min(encoded.prepare_s, encoded.compute_s, encoded.encode_s) > 0
    assert encoded.head_s == encoded.prepare_s + encoded.compute_s + encoded.encode_s


def test_warming_up_opens_what_is_needed(head: HeadRunner) -> None:
    head.warm_up(ways=[Split(cut="middle", codec="q8")], whole=False)
    assert repr(head) == "<HeadRunner tiny-1.0 opened=['middle']>"
    head.warm_up(ways=[], whole=True)
    assert repr(head) == "<HeadRunner tiny-1.0 opened=['middle', 'full']>"


def test_a_cut_that_is_not_there_says_which_are(head: HeadRunner) -> None:
    with pytest.raises(UnknownCutError, match="middle"):
        head.warm_up(ways=[Split(cut="nosuch", codec="raw")], whole=False)


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


CODE = Split(cut="code", codec="rans")


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("gated") / "gated", gated=True))


def plain(brightness: int) -> Picture:
    return np.full((16, 16, 3), brightness, dtype=np.uint8)


def runner(bundle: Bundle, gates: GateSettings | None = None) -> HeadRunner:
    return HeadRunner(bundle, threads=1, clock=MonotonicClock(), gates=gates)


def test_the_filter_ends_a_frame_with_an_empty_answer(gated: Bundle) -> None:
    ended = runner(gated).run(plain(5), CODE)
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.gate) == (Outcome.FILTERED, "presence")
    assert ended.answer == ClassifyAnswer(top=())
    assert ended.cost.macs == gated.cut("code").gates[0].macs
    assert ended.cost.seconds > 0


def test_an_exit_ends_a_frame_with_the_answer_of_the_whole_model(gated: Bundle) -> None:
    head = runner(gated)
    ended = head.run(plain(200), CODE)
    assert isinstance(ended, Ended)
    assert (ended.outcome, ended.gate) == (Outcome.EXIT, "guess")
    assert best(ended.answer) == best(head.whole(plain(200)))
    assert [verdict.ends for verdict in ended.verdicts] == [False, True]


@pytest.mark.parametrize(("codec", "table"), [("rans", ""), ("rans-coarse", "rans-coarse")])
def test_a_frame_that_passes_is_entropy_coded(gated: Bundle, codec: str, table: str) -> None:
    encoded = runner(gated).run(plain(64), Split(cut="code", codec=codec))
    assert isinstance(encoded, Encoded)
    (info,) = encoded.tensors
    assert (info.name, info.shape, info.codec) == ("code", (1, 6, 8, 8), codec)
    assert info.quantiser == table
    assert encoded.macs == gated.cut("code").device_macs
    assert 0 < encoded.payload_bytes < 200
    assert [verdict.gate.name for verdict in encoded.verdicts] == ["presence", "guess"]
    crossed = gated.codecs("code").new(codec).decode(encoded.payloads[0], info.shape)
    assert crossed.max() > 0


def test_an_exit_that_let_a_frame_pass_has_an_answer(gated: Bundle) -> None:
    head = runner(gated)
    encoded = head.encode(plain(64), CODE)
    early = head.early(encoded.verdicts)
    assert early is not None
    assert early.gate == "guess"
    assert isinstance(early.answer, ClassifyAnswer)
    assert early.answer.top
    assert head.early(encoded.verdicts[:1]) is None  # a filter has none
    unsure = replace(encoded.verdicts[1], confidence=float("-inf"))
    assert head.early([unsure]) is None


def test_encoding_goes_on_whatever_the_gates_say(gated: Bundle) -> None:
    encoded = runner(gated).encode(plain(5), CODE)
    assert [verdict.ends for verdict in encoded.verdicts] == [True, False]


def test_warming_up_runs_what_lies_behind_the_gates(
    gated: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = Bundle.open_stage

    def noted(bundle: Bundle, entry: StageEntry, *, threads: int = 1) -> OnnxStage:
        opened.append(entry.file)
        return real(bundle, entry, threads=threads)

    monkeypatch.setattr(Bundle, "open_stage", noted)
    head = runner(gated)
    head.warm_up(ways=[CODE], whole=False)
    assert opened[-1] == "head-code.onnx"
    before = len(opened)
    for brightness in (5, 64, 200):
        head.run(plain(brightness), CODE)
    assert len(opened) == before


def test_codecs_are_built_once(gated: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    head = runner(gated)
    head.run(plain(64), CODE)
    monkeypatch.setattr(Bundle, "codecs", lambda *_: pytest.fail("built again"))
    assert isinstance(head.run(plain(64), CODE), Encoded)


def test_gates_can_be_left_out(gated: Bundle) -> None:
    off = runner(gated, GateSettings(exit_point="off", filter=False))
    for brightness in (5, 200):
        encoded = off.run(plain(brightness), CODE)
        assert isinstance(encoded, Encoded)
        assert encoded.verdicts == ()


def test_no_gate_is_looked_at_for_a_picture_that_is_sent_whole(gated: Bundle) -> None:
    encoded = runner(gated).run(plain(5), Offload(codec="jpeg", quality=80))
    assert isinstance(encoded, Encoded)
    assert (encoded.macs, encoded.verdicts) == (0, ())


def test_a_point_that_is_not_there_is_found_out_at_the_start(gated: Bundle) -> None:
    with pytest.raises(UnknownPointError, match="only eager, careful, closed"):
        runner(gated, GateSettings(exit_point="bold"))
    ungated = Split(cut="late", codec="raw")
    eager = runner(gated, GateSettings(exit_point="eager"))
    assert isinstance(eager.run(plain(200), ungated), Encoded)
