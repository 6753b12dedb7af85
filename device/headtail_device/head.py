"""What the device computes: heads, encodings, and the whole model when the edge can't be had."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Protocol

import numpy as np

from headtail_device.early import EarlyAnswer
from headtail_device.ledger import Outcome
from headtail_device.placement import Offload, Remote, Split
from headtail_device.record import Cost
from headtail_device.stand_in import nothing
from headtail_fabric.clock import Clock
from headtail_fabric.codec import TensorCodec, codec_for
from headtail_fabric.codec.base import CODES, Array
from headtail_fabric.wire import Buffer, DType, Frames, TensorInfo
from headtail_models.bundle import Bundle
from headtail_models.bundle.codecs import CutCodecs, PictureCodecs
from headtail_models.bundle.manifest import (
    INPUT,
    Cut,
    Exit,
    StageEntry,
)
from headtail_models.head_chain import GateSettings, HeadChain, Verdict, check_exit_point
from headtail_models.stage import Stage
from headtail_models.task import Answer, Picture, Place, task_for
from headtail_models.task import Frame as Data


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A request's content, and what it cost to make: seconds, and the multiply-adds of the network.

    `verdicts` are those of the gates that let the frame pass: what its exits would have answered is
    at hand if the edge does not.
    """

    tensors: tuple[TensorInfo, ...]
    payloads: tuple[Buffer, ...]
    geometry: Place
    prepare_s: float
    compute_s: float
    encode_s: float
    macs: int = 0
    verdicts: tuple[Verdict, ...] = ()

    @property
    def head_s(self) -> float:
        return self.prepare_s + self.compute_s + self.encode_s

    @property
    def cost(self) -> Cost:
        return Cost(seconds=self.head_s, macs=self.macs)

    @property
    def payload_bytes(self) -> int:
        return sum(memoryview(payload).nbytes for payload in self.payloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A gate ended the frame, the last of `verdicts`: there is nothing to send.

    `outcome` is EXIT or FILTERED.
    """

    outcome: Outcome
    answer: Answer
    verdicts: tuple[Verdict, ...]
    cost: Cost

    @property
    def gate(self) -> str:
        return self.verdicts[-1].gate.name


class Head(Protocol):
    """The seam between the runner and the network."""

    @property
    def digest(self) -> bytes:
        """The bundle's digest (32 bytes)."""
        ...

    @property
    def whole_macs(self) -> int:
        """Multiply-adds of the whole model."""
        ...

    def run(
        self,
        data: Data,
        way: Remote,
        exit_point: str = "",
        passed: Callable[[], None] | None = None,
    ) -> Encoded | Ended:
        """The request for the edge, or the answer of a gate that ended the frame. `exit_point` is
        that of the exits on the way, empty for the configured one; `passed` is called when no gate
        can end it any more. Raises HeadtailError, ValueError when it can't be made."""
        ...

    def encode(self, data: Data, way: Remote) -> Encoded:
        """The request for the edge, whatever the gates say of the frame. Raises as `run`."""
        ...

    def decode(self, tensors: Sequence[TensorInfo], payloads: Frames, geometry: Place) -> Answer:
        """What the edge answered. Raises PeerError when it makes no sense."""
        ...

    def whole(self, data: Data) -> Answer:
        """The answer of the whole model, computed here. Raises HeadtailError, ValueError."""
        ...

    def early(self, verdicts: Sequence[Verdict]) -> EarlyAnswer | None:
        """What the deepest exit on the way would have answered; None when there was none."""
        ...


class HeadRunner:
    """The stages and codecs of one bundle, each opened when it is first needed. Not thread-safe."""

    def __init__(
        self, bundle: Bundle, *, threads: int, clock: Clock, gates: GateSettings | None = None
    ) -> None:
        """Raises TaskError when the bundle's task can't be carried out, UnknownPointError when none
        of its cuts has the exits' operating point; a cut without exits does without."""
        if gates is not None:
            check_exit_point(bundle.manifest.cuts, gates.exit_point)
        self.digest = bundle.digest
        self.whole_macs = bundle.full().macs
        self._bundle = bundle
        self._task = task_for(bundle.manifest)
        self._threads = threads
        self._clock = clock
        self._gates = gates or GateSettings()
        self._full: Stage | None = None
        self._cuts: dict[tuple[str, str], tuple[Cut, HeadChain]] = {}
        self._stages: dict[str, Stage] = {}
        self._codecs: dict[Remote, tuple[TensorCodec, str]] = {}

    def __repr__(self) -> str:
        cuts = dict.fromkeys(cut for cut, _ in self._cuts)
        opened = [*cuts, *(["full"] if self._full else [])]
        return f"<HeadRunner {self._bundle.name} opened={opened}>"

    def warm_up(self, *, ways: Iterable[Remote], whole: bool) -> None:
        """Open what `ways` and, with `whole`, the fallback need, and run it once on a black
        picture or on silence, so that no frame waits for it and nothing that can't work is found
        out later.

        Raises UnknownCutError, UnknownPointError, CodecNotAllowedError, BadCoderError, StageError.
        """
        blank = nothing(self._bundle.manifest)
        for way in ways:
            self.encode(blank, way)
        if whole:
            self.whole(blank)

    def run(
        self,
        data: Data,
        way: Remote,
        exit_point: str = "",
        passed: Callable[[], None] | None = None,
    ) -> Encoded | Ended:
        if not isinstance(way, Offload):
            return self._split(data, way, exit_point, heed=True, passed=passed)
        if passed is not None:
            passed()
        return self._offload(data, way)

    def encode(self, data: Data, way: Remote) -> Encoded:
        if isinstance(way, Offload):
            return self._offload(data, way)
        made = self._split(data, way, "", heed=False)
        assert isinstance(made, Encoded), "no gate was heeded"
        return made

    def decode(self, tensors: Sequence[TensorInfo], payloads: Frames, geometry: Place) -> Answer:
        received: dict[str, Array] = {
            info.name: codec_for(info.codec, dtype=info.dtype).decode(payload, info.shape)
            for info, payload in zip(tensors, payloads, strict=True)
        }
        return self._task.answer(received, geometry)

    def whole(self, data: Data) -> Answer:
        entry = self._bundle.full()
        if self._full is None:
            self._full = self._open(entry)
        tensor, geometry = self._task.prepare(data)
        outputs = self._full.run({entry.inputs[0].name: tensor})
        return self._task.answer(self._task.finish(outputs)[0], geometry)

    def early(self, verdicts: Sequence[Verdict]) -> EarlyAnswer | None:
        for verdict in reversed(verdicts):
            if isinstance(verdict.gate, Exit) and isfinite(verdict.confidence):
                answer = self._task.early_answer(verdict.shares, verdict.gate.classes)
                return EarlyAnswer(gate=verdict.gate.name, answer=answer)
        return None

    def _split(
        self,
        data: Data,
        way: Split,
        point: str,
        *,
        heed: bool,
        passed: Callable[[], None] | None = None,
    ) -> Encoded | Ended:
        codec, table = self._codec(way)
        cut, chain = self._cut(way.cut, point or self._gates.exit_point)
        began_at = self._clock.now()
        tensor, geometry = self._task.prepare(data)
        prepared_at = self._clock.now()
        run = chain.run(tensor, heed=heed, passed=passed)
        computed_at = self._clock.now()
        if run.tensor is None:
            cost = Cost(seconds=computed_at - began_at, macs=run.macs)
            return self._ended(run.verdicts, cost)
        payload = codec.encode(run.tensor)
        info = TensorInfo(
            name=cut.tensor.name,
            dtype=CODES[run.tensor.dtype],
            shape=run.tensor.shape,
            codec=codec.id,
            quantiser=table,
        )
        return Encoded(
            tensors=(info,),
            payloads=(payload,),
            geometry=geometry,
            prepare_s=prepared_at - began_at,
            compute_s=computed_at - prepared_at,
            encode_s=self._clock.now() - computed_at,
            macs=run.macs,
            verdicts=run.verdicts,
        )

    def _ended(self, verdicts: tuple[Verdict, ...], cost: Cost) -> Ended:
        last = verdicts[-1]
        if isinstance(last.gate, Exit):
            answer = self._task.early_answer(last.shares, last.gate.classes)
            return Ended(outcome=Outcome.EXIT, answer=answer, verdicts=verdicts, cost=cost)
        answer = self._task.nothing()
        return Ended(outcome=Outcome.FILTERED, answer=answer, verdicts=verdicts, cost=cost)

    def _offload(self, picture: Picture, way: Offload) -> Encoded:
        codec, table = self._codec(way)
        began_at = self._clock.now()
        geometry = self._task.geometry(picture.shape[0], picture.shape[1])
        payload = codec.encode(picture[np.newaxis])
        info = TensorInfo(
            name=INPUT,
            dtype=DType.UINT8,
            shape=(1, *picture.shape),
            codec=codec.id,
            quantiser=table,
        )
        return Encoded(
            tensors=(info,),
            payloads=(payload,),
            geometry=geometry,
            prepare_s=0.0,
            compute_s=0.0,
            encode_s=self._clock.now() - began_at,
        )

    def _cut(self, name: str, exit_point: str) -> tuple[Cut, HeadChain]:
        if (name, exit_point) not in self._cuts:
            cut = self._bundle.cut(name)
            settings = replace(self._gates, exit_point=exit_point)
            self._cuts[name, exit_point] = (cut, HeadChain(cut, self._stage, settings=settings))
        return self._cuts[name, exit_point]

    def _codec(self, way: Remote) -> tuple[TensorCodec, str]:
        """The codec, and the name of its quantiser table."""
        if way not in self._codecs:
            codecs: CutCodecs = (
                PictureCodecs(quality=way.quality)
                if isinstance(way, Offload)
                else self._bundle.codecs(way.cut)
            )
            self._codecs[way] = (codecs.new(way.codec), codecs.table(way.codec))
        return self._codecs[way]

    def _stage(self, entry: StageEntry) -> Stage:
        """Opened once, for all operating points."""
        if entry.file not in self._stages:
            self._stages[entry.file] = self._open(entry)
        return self._stages[entry.file]

    def _open(self, entry: StageEntry) -> Stage:
        return self._bundle.open_stage(entry, threads=self._threads)
