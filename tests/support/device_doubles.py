"""Doubles for the device's seams: a head without a network, ports with a script, a tiny bundle."""

import queue
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from headtail_device.config import Late
from headtail_device.delivery import Checkout, Finished
from headtail_device.early import EarlyAnswer
from headtail_device.head import Encoded, Ended
from headtail_device.ledger import Ledger, Outcome
from headtail_device.placement import Remote, Split
from headtail_device.policy import FixedPolicy, Policy
from headtail_device.runner import Runner, RunnerSettings
from headtail_device.source.frame import Frame
from headtail_device.spool import Spooler
from headtail_fabric.clock import FakeClock
from headtail_fabric.codec.base import Array
from headtail_fabric.errors import HeadtailError
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.events import (
    Alternative,
    Answered,
    ClientEvent,
    Connected,
    RequestArrived,
    RequestCancelled,
    SessionOpened,
)
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.wire import (
    Buffer,
    DType,
    ErrorCode,
    Frames,
    Hints,
    Offer,
    TensorInfo,
    Timings,
)
from headtail_models.bundle import write_bundle
from headtail_models.bundle.manifest import (
    ClassifyTask,
    Cut,
    Exit,
    Manifest,
    Preprocess,
    QuantiserTable,
    StageEntry,
    TensorSpec,
)
from headtail_models.head_chain import Verdict
from headtail_models.task import Answer, ClassifyAnswer, Geometry, Picture, Place
from headtail_models.task import Frame as Data

DIGEST = bytes(range(32))
WAY = Split(cut="middle", codec="raw")
TENSOR = TensorInfo(name="middle", dtype=DType.UINT8, shape=(1,), codec="raw")
ANSWER = TensorInfo(name="answer", dtype=DType.UINT8, shape=(1,), codec="raw")
BY_EDGE = ClassifyAnswer(top=(("edge", 1.0),))
BY_EXIT = ClassifyAnswer(top=(("exit", 1.0),))
BY_DEVICE = ClassifyAnswer(top=(("device", 1.0),))
GEOMETRY = Geometry.letterbox(4, 4, to_height=4, to_width=4)


def picture(index: int = 0, *, height: int = 4, width: int = 4) -> Picture:
    """A picture whose first value is `index`."""
    data = np.zeros((height, width, 3), dtype=np.uint8)
    data[0, 0, 0] = index % 256
    return data


def frame(
    index: int, *, captured_at: float = 0.0, deadline_s: float = 1.0, origin: str = ""
) -> Frame:
    return Frame(
        index=index,
        data=picture(index),
        captured_at=captured_at,
        deadline_s=deadline_s,
        origin=origin or f"test#{index}",
    )


def verdict(confidence: float) -> Verdict:
    """What an exit says that lets every frame pass."""
    gate = Exit(
        name="exit",
        branch=StageEntry(file="branch.onnx", inputs=(), outputs=(), macs=1),
        criterion="max-probability",
        points=(),
        default_point="none",
    )
    return Verdict(gate=gate, confidence=confidence, ends=False, shares=np.array([0.4, 0.6]))


class FakeHead:
    """Computes nothing, but takes time. `encode_error` and `whole_error` are raised when set; with
    `ended` a gate ends every frame."""

    digest = DIGEST
    whole_macs = 1000

    def __init__(self, clock: FakeClock, *, head_s: float = 0.01, whole_s: float = 0.1) -> None:
        self._clock = clock
        self.head_s = head_s
        self.whole_s = whole_s
        self.tensor = TENSOR
        self.encode_error: HeadtailError | ValueError | None = None
        self.whole_error: HeadtailError | ValueError | None = None
        self.decode_error: HeadtailError | None = None
        self.during_encode: Callable[[], object] = lambda: None
        self.ended: Ended | None = None
        self.verdicts: tuple[Verdict, ...] = ()
        self.points: list[str] = []

    def run(
        self,
        data: Data,
        way: Remote,
        exit_point: str = "",
        passed: Callable[[], None] | None = None,
    ) -> Encoded | Ended:
        self.points.append(exit_point)
        if self.ended is None and passed is not None:
            passed()
        encoded = self.encode(data, way)
        return encoded if self.ended is None else self.ended

    def encode(self, data: Data, way: Remote) -> Encoded:
        self._clock.advance(self.head_s)
        self.during_encode()
        if self.encode_error is not None:
            raise self.encode_error
        return Encoded(
            tensors=(self.tensor,),
            payloads=(bytes([data[0, 0, 0]]),),
            geometry=GEOMETRY,
            prepare_s=0.0,
            compute_s=self.head_s,
            encode_s=0.0,
            macs=10,
            verdicts=self.verdicts,
        )

    def decode(self, tensors: Sequence[TensorInfo], payloads: Frames, geometry: Place) -> Answer:
        if self.decode_error is not None:
            raise self.decode_error
        return BY_EDGE

    def early(self, verdicts: Sequence[Verdict]) -> EarlyAnswer | None:
        return EarlyAnswer(gate="exit", answer=BY_EXIT) if verdicts else None

    def whole(self, data: Data) -> Answer:
        self._clock.advance(self.whole_s)
        if self.whole_error is not None:
            raise self.whole_error
        return BY_DEVICE


class Bench:
    """A runner on a memory link to a memory server, on a fake clock."""

    def __init__(
        self,
        *,
        late: Late = "answer",
        window: int = 4,
        max_in_flight: int = 8,
        patience_s: float = 1.0,
        policy: Policy | None = None,
        packed: Callable[[], bytes] | None = None,
        serves: Sequence[bytes] = (DIGEST,),
        spool: Callable[["Bench"], Spooler] | None = None,
        hedge: bool = False,
        announce_tails: bool = True,
    ) -> None:
        self.clock = FakeClock(100.0)
        self.link = MemoryLink(self.clock)
        self.server = MemoryServer(self.link, window=window)
        self.server.serve_bundles(serves)
        self.client = MemoryClient(self.link, bundles=(DIGEST,), can_push=packed is not None)
        self.head = FakeHead(self.clock)
        self.ledger = Ledger()
        self.finished: list[Finished] = []
        self.arrived: list[RequestArrived] = []
        self.session = b""
        self.checkout = Checkout(ledger=self.ledger, deliver=self.finished.append, clock=self.clock)
        self.runner = Runner(
            port=self.client,
            head=self.head,
            policy=policy or FixedPolicy(remote=WAY),
            checkout=self.checkout,
            clock=self.clock,
            settings=RunnerSettings(
                late=late,
                max_in_flight=max_in_flight,
                patience_s=patience_s,
                hedge=hedge,
                announce_tails=announce_tails,
            ),
            packed=packed,
            spooler=None if spool is None else spool(self),
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """Of the frames that have left, in the order in which they left."""
        return [finished.record.outcome for finished in self.finished]

    def restart_server(self, *, serves: Sequence[bytes] = (DIGEST,)) -> None:
        self.arrived.clear()
        self.server = MemoryServer(self.link, seed=len(self.finished) + 7)
        self.server.serve_bundles(serves)

    def pump(self) -> None:
        """Carry everything that is due, both ways."""
        moved = True
        while moved:
            moved = False
            while (heard := self.server.poll(0)) is not None:
                moved = True
                match heard:
                    case SessionOpened():
                        self.session = heard.session
                    case RequestArrived():
                        self.arrived.append(heard)
                    case RequestCancelled():
                        self.arrived = [one for one in self.arrived if one.request.id != heard.id]
            while (event := self.client.poll(0)) is not None:
                moved = True
                self.runner.on_event(event)

    def feed(self, index: int, *, deadline_s: float = 1.0) -> None:
        """A frame captured now."""
        now = self.clock.now()
        self.runner.on_item(frame(index, captured_at=now, deadline_s=deadline_s))
        self.pump()

    def respond(self, *, compute_us: int = 2000, queue_us: int = 1000) -> None:
        """The server answers the oldest request it has."""
        request = self.arrived.pop(0)
        self.server.respond(
            request.session,
            request.request.id,
            tensors=(ANSWER,),
            payloads=(b"\0",),
            timings=Timings(queue_us=queue_us, compute_us=compute_us),
            hints=Hints(),
        )
        self.pump()

    def fail(self, code: ErrorCode) -> None:
        """The server fails the oldest request it has."""
        request = self.arrived.pop(0)
        self.server.fail(request.session, request.request.id, code, "no")
        self.pump()

    def refuse(self, *, retry_after_s: float, instead: Alternative | None = None) -> None:
        """The server is too busy for the oldest request it has, until its deadline; or it would
        rather have it another way."""
        request = self.arrived.pop(0)
        self.server.busy(
            request.session,
            request.request.id,
            retry_after_s=retry_after_s,
            hints=Hints(),
            instead=instead,
        )
        self.pump()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.pump()

    def work_off(self) -> None:
        """Pay what is owed."""
        while self.runner.has_work:
            self.runner.work()

    def close_books(self) -> None:
        """End everything, as a stop does."""
        self.runner.give_up_edge("the test is over")
        self.work_off()


class ScriptedCapture:
    """A camera that gives one picture for each True; after that it is gone."""

    def __init__(self, script: Sequence[bool], *, opened: bool = True) -> None:
        self._script = list(script)
        self._opened = opened
        self.released = False

    def isOpened(self) -> bool:  # noqa: N802
        return self._opened

    def read(self) -> tuple[bool, Array | None]:
        if self._script and self._script.pop(0):
            return True, picture()
        return False, None

    def get(self, prop: int, /) -> float:
        return 30.0

    def release(self) -> None:
        self.released = True


class EchoPort:
    """A port whose edge answers at once; safe for the device's threads. It serves `bundle`.

    `answer` gives the tensors of each answer.
    """

    def __init__(
        self, bundle: bytes, answer: Callable[[], tuple[TensorInfo, bytes]], *, up: bool = True
    ) -> None:
        self._bundle = bundle
        self._answer = answer
        self._events: queue.SimpleQueue[ClientEvent] = queue.SimpleQueue()
        self._next_id = 1
        self._up = up
        self.cuts: list[str] = []
        self.closed = False
        if up:
            offer = Offer(
                session=bytes(16),
                boot=bytes(16),
                name="echo",
                agent="test",
                bundles=(bundle,),
                window=4,
                heartbeat_ms=1000,
            )
            self._events.put(Connected(offer=offer, restarted=False))

    def submit(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        deadline_s: float,
        trace: str = "",
    ) -> int:
        assert bundle == self._bundle
        request_id, self._next_id = self._next_id, self._next_id + 1
        self.cuts.append(cut)
        info, payload = self._answer()
        self._events.put(
            Answered(
                id=request_id,
                tensors=(info,),
                payloads=(payload,),
                timings=Timings(compute_us=10),
                hints=Hints(),
                sent_at=0.0,
                received_at=0.0,
                attempts=1,
                bytes_up=1000,
                bytes_down=100,
            )
        )
        return request_id

    def cancel(self, request_id: int) -> None:
        pass

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        pass

    def free_window(self) -> int:
        return 4 if self._up else 0

    def poll(self, timeout_s: float) -> ClientEvent | None:
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        pass

    def estimate(self) -> LinkEstimate:
        return LinkEstimate()

    def traffic(self) -> TrafficCount:
        sent = len(self.cuts)
        return TrafficCount(socket_bytes_up=1100 * sent, socket_bytes_down=110 * sent)

    def close(self, timeout_s: float = 1.0) -> None:
        self.closed = True


def tiny_bundle(folder: Path) -> Path:
    """A classifier of 8 x 8 pictures, dark or bright, cut in the middle."""
    source = folder / "stages"
    source.mkdir()
    weights = np.array([[-1, 1], [-1, 1], [-1, 1]], dtype=np.float32)
    bias = np.array([1.5, -1.5], dtype=np.float32)
    pool = helper.make_node("AveragePool", ["x"], ["middle"], kernel_shape=[2, 2], strides=[2, 2])
    rest = [
        helper.make_node("GlobalAveragePool", ["middle"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["logits"]),
    ]
    inits = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")]
    x, middle = _value("x", 3, 8, 8), _value("middle", 3, 4, 4)
    logits = _value("logits", 2)
    _save(source / "head-middle.onnx", [pool], x, middle, [])
    _save(source / "tail-middle.onnx", rest, middle, logits, inits)
    _save(source / "full.onnx", [pool, *rest], x, logits, inits)
    specs = {
        "x": TensorSpec(name="x", dtype="float32", shape=(3, 8, 8)),
        "middle": TensorSpec(name="middle", dtype="float32", shape=(3, 4, 4)),
        "logits": TensorSpec(name="logits", dtype="float32", shape=(2,)),
    }
    manifest = Manifest(
        schema=1,
        name="tiny",
        version="1.0",
        task=ClassifyTask(output="logits"),
        labels=("dark", "bright"),
        preprocess=Preprocess(kind="letterbox", width=8, height=8),
        full=_stage("full.onnx", specs["x"], specs["logits"]),
        cuts=(
            Cut(
                name="middle",
                head=_stage("head-middle.onnx", specs["x"], specs["middle"]),
                tail=_stage("tail-middle.onnx", specs["middle"], specs["logits"]),
                codecs=("raw", "q8", "q8+zstd"),
                quantisers={"q8": QuantiserTable(low=(0.0,) * 3, high=(1.0,) * 3)},
            ),
        ),
        default_cut="middle",
        default_codec="q8+zstd",
        files=(),
    )
    return write_bundle(source, manifest, folder / "tiny")


def write_video(path: Path, *, frames: int = 12, size: tuple[int, int] = (64, 48)) -> Path:
    """A small clip at 10 frames a second in which every frame is another."""
    code = "MJPG" if path.suffix == ".avi" else "mp4v"
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*code), 10, size)
    assert writer.isOpened()
    noise = np.random.default_rng(0)
    for shown in _moving(frames, size):
        shown[: size[1] // 3] = noise.integers(0, 256, (size[1] // 3, size[0], 3), dtype=np.uint8)
        writer.write(shown)
    writer.release()
    return path


def damage(path: Path, *, size_bytes: int) -> None:
    """Overwrite the middle of a file."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    noise = np.random.default_rng(1).integers(0, 256, size_bytes, dtype=np.uint8)
    data[middle : middle + size_bytes] = noise.tobytes()
    path.write_bytes(data)


def _moving(frames: int, size: tuple[int, int]) -> Iterator[Picture]:
    for index in range(frames):
        shown = np.full((size[1], size[0], 3), 40, dtype=np.uint8)
        shown[size[1] // 2 :, index : index + 16] = 220
        yield shown


def _value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])


def _save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    entry: onnx.ValueInfoProto,
    leaving: onnx.ValueInfoProto,
    inits: Sequence[onnx.TensorProto],
) -> None:
    graph = helper.make_graph(list(nodes), "tiny", [entry], [leaving], list(inits))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))


def _stage(file: str, entry: TensorSpec, leaving: TensorSpec) -> StageEntry:
    return StageEntry(file=file, inputs=(entry,), outputs=(leaving,), macs=10)
