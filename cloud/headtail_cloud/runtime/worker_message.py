"""What a process and its worker say to each other.

    process: Load -> worker or zygote: Ready | NotReady
    process: Fork -> zygote: Forked, and its child: Ready | NotReady
    process: Run -> worker: Ran | StepBroke        Export -> Exported | Refused
                                                   Import -> Imported | Refused

Nothing is pickled: a worker computes what strangers send, and what it says is checked like theirs.
Tensors travel beside the message, as the buffers of a `Channel`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.prices import SegmentPrices, TextPrices, segment_prices, text_prices
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import (
    DecodeStep,
    PrefillChunk,
    TailItem,
    TailOutput,
    Task,
    TaskFailed,
    TaskResult,
    TextOutput,
)
from headtail_cloud.core.work import Work
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.runtime.channel import BadMessageError
from headtail_cloud.runtime.engine_spec import EngineSpec, LoadedEngine
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer

_ARRAY: Final = 1
_TAIL_INPUT: Final = 2
_KINDS: Final = "fiub"
"""Of the elements of arrays: floats, integers, truth values."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class Load(_Message, frozen=True, kw_only=True):
    """Be this engine."""

    spec: EngineSpec
    resident: bool = False
    """Of a zygote: have it ready for its children."""


class Fork(_Message, frozen=True, kw_only=True):
    """Of a zygote: make a worker that speaks through the descriptor sent along."""


class Forked(_Message, frozen=True, kw_only=True):
    pid: int


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself: `Capacity`, and the parts of its linear `estimate`."""

    max_batch: int
    blocks: int
    block_tokens: int
    step_s: float
    texts: TextPrices
    segments: tuple[tuple[Segment, SegmentPrices], ...]

    @property
    def capacity(self) -> Capacity:
        return Capacity(
            max_batch=self.max_batch, blocks=self.blocks, block_tokens=self.block_tokens
        )

    def estimate(self, work: Work) -> float:
        """As the engine would: seconds."""
        tails_s = sum(prices.of(work.items.get(segment, 0)) for segment, prices in self.segments)
        return self.step_s + self.texts.of(work) + tails_s


class Ready(_Message, frozen=True, kw_only=True):
    """`loaded_s`: what loading took, near nothing where the engine was there before the fork."""

    profile: Profile
    loaded_s: float


class NotReady(_Message, frozen=True, kw_only=True):
    """The engine can't be loaded."""

    reason: str


class Tail(_Message, frozen=True, kw_only=True):
    task: TailItem


class Prefill(_Message, frozen=True, kw_only=True):
    task: PrefillChunk


class Decode(_Message, frozen=True, kw_only=True):
    task: DecodeStep


class Run(_Message, frozen=True, kw_only=True):
    tasks: list[Tail | Prefill | Decode]


class TailRan(_Message, frozen=True, kw_only=True):
    result: TailOutput


class TextRan(_Message, frozen=True, kw_only=True):
    result: TextOutput


class Failed(_Message, frozen=True, kw_only=True):
    result: TaskFailed


class Ran(_Message, frozen=True, kw_only=True):
    results: list[TailRan | TextRan | Failed]


class StepBroke(_Message, frozen=True, kw_only=True):
    """All of its tasks failed; the worker lives."""

    reason: str


class Export(_Message, frozen=True, kw_only=True):
    blocks: tuple[int, ...]
    positions: int


class Import(_Message, frozen=True, kw_only=True):
    """The state is the message's buffer."""

    blocks: tuple[int, ...]
    positions: int


class Exported(_Message, frozen=True, kw_only=True):
    """The state is the message's buffer."""


class Imported(_Message, frozen=True, kw_only=True):
    """The state is in its blocks; or, from a zygote, the engine's modules are here."""


class Refused(_Message, frozen=True, kw_only=True):
    """An export or an import is not possible."""

    reason: str


ToWorker = Load | Fork | Run | Export | Import
FromWorker = Ready | NotReady | Forked | Ran | StepBroke | Exported | Imported | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A message for a channel."""

    message: bytes
    buffers: list[Buffer]


class MessageCodec:
    """Both directions, for one thread.

    Arrays that it unpacks lie where they came, or, with `keep`, are copies that stay good when the
    next message comes; the payloads of tails are never copied.
    """

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._buffers: Sequence[Buffer] = ()
        self._out: list[Buffer] = []
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._put_array)
        self._to_worker = msgspec.msgpack.Decoder(ToWorker, ext_hook=self._found)
        self._from_worker = msgspec.msgpack.Decoder(FromWorker, ext_hook=self._found)

    def pack(self, message: ToWorker | FromWorker, buffers: Sequence[Buffer] = ()) -> Packed:
        """Raises TypeError for a value that no message may hold."""
        self._out = list(buffers)
        return Packed(message=self._encoder.encode(message), buffers=self._out)

    def run(self, tasks: Sequence[Task]) -> Packed:
        """A step."""
        self._out = []
        message = Run(tasks=[self._task(task) for task in tasks])
        return Packed(message=self._encoder.encode(message), buffers=self._out)

    def to_worker(self, message: bytes, buffers: Sequence[Buffer]) -> ToWorker:
        """Raises BadMessageError."""
        self._buffers = buffers
        try:
            return self._to_worker.decode(message)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise BadMessageError(f"not for a worker: {error}") from None

    def from_worker(self, message: bytes, buffers: Sequence[Buffer]) -> FromWorker:
        """Raises BadMessageError."""
        self._buffers = buffers
        try:
            return self._from_worker.decode(message)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise BadMessageError(f"not from a worker: {error}") from None

    def _task(self, task: Task) -> Tail | Prefill | Decode:
        match task:
            case TailItem(input=TailInput() as given):
                parts = (
                    len(self._out),
                    given.shape,
                    given.codec,
                    given.quantiser,
                    given.outputs,
                )
                self._out.append(given.payload)
                packed = msgspec.msgpack.Ext(_TAIL_INPUT, msgspec.msgpack.encode(parts))
                return Tail(task=replace(task, input=packed))
            case TailItem():
                return Tail(task=task)
            case PrefillChunk():
                return Prefill(task=task)
            case DecodeStep():
                return Decode(task=task)

    def _put_array(self, value: object) -> object:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in _KINDS:
            raise TypeError(f"{type(value).__name__} can't go to another process")
        array: Array = np.asarray(value, order="C")
        parts = (len(self._out), array.dtype.str, array.shape)
        self._out.append(array.reshape(-1).view(np.uint8).data)
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(parts))

    def _found(self, code: int, data: memoryview) -> object:
        if code == _ARRAY:
            at, dtype, shape = msgspec.msgpack.decode(data, type=tuple[int, str, tuple[int, ...]])
            if np.dtype(dtype).kind not in _KINDS:
                raise ValueError(f"an array of {dtype[:20]}")
            array = np.frombuffer(self._buffer(at), dtype).reshape(shape)
            return array.copy() if self._keep else array
        if code == _TAIL_INPUT:
            at, shape, codec, quantiser, outputs = msgspec.msgpack.decode(
                data, type=tuple[int, tuple[int, ...], str, str, tuple[str, ...]]
            )
            return TailInput(
                payload=self._buffer(at),
                shape=shape,
                codec=codec,
                quantiser=quantiser,
                outputs=outputs,
            )
        raise ValueError(f"unknown extension {code}")

    def _buffer(self, at: int) -> Buffer:
        if not 0 <= at < len(self._buffers):
            raise ValueError(f"no buffer {at}")
        return self._buffers[at]


def profile_of(loaded: LoadedEngine) -> Profile:
    """What that engine says of itself."""
    engine = loaded.engine
    capacity = engine.capacity()
    return Profile(
        max_batch=capacity.max_batch,
        blocks=capacity.blocks,
        block_tokens=capacity.block_tokens,
        step_s=engine.estimate(Work()),
        texts=text_prices(engine.estimate),
        segments=tuple((one, segment_prices(engine.estimate, one)) for one in loaded.segments),
    )


def ran(results: Sequence[TaskResult]) -> Ran:
    """A step's results."""
    return Ran(results=[_result(result) for result in results])


def _result(result: TaskResult) -> TailRan | TextRan | Failed:
    match result:
        case TailOutput():
            return TailRan(result=result)
        case TextOutput():
            return TextRan(result=result)
        case TaskFailed():
            return Failed(result=result)
