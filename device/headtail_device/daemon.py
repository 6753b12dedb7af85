"""A device, wired together: threads, files and sockets around the `Runner`."""

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Final, Self

import numpy as np

from headtail_device.config import DeviceConfig, Pace
from headtail_device.deciding import decide_by
from headtail_device.delivery import Checkout, Finished
from headtail_device.edges import connect_edge
from headtail_device.head import HeadRunner
from headtail_device.inbox import Inbox
from headtail_device.ledger import Ledger, Outcome
from headtail_device.loop import Loop, capture, listen
from headtail_device.meter import DeviceMeter
from headtail_device.no_edge import NoEdge
from headtail_device.opening import (
    Connect,
    check_kind,
    open_board,
    open_spool,
    open_traces,
    open_trusted,
    pack,
)
from headtail_device.placement import Remote, remote_for
from headtail_device.runner import Runner, RunnerSettings
from headtail_device.source import SourceOpener
from headtail_device.source.frame import Source
from headtail_device.spool import NO_SPOOL
from headtail_device.summary import Progress, RunSummary
from headtail_device.tally import PlacementTally
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.codec import codec_for
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields
from headtail_fabric.metrics import serve
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import DType
from headtail_models.head_chain import GateSettings

log = logging.getLogger(__name__)

_JOIN_S: Final = 2.0
_TELL_EVERY_S: Final = 0.2
_REFERENCE_QUALITY: Final = 75

Tell = Callable[[Progress], None]


def run_device(
    config: DeviceConfig,
    *,
    stop: threading.Event,
    progress: Tell | None = None,
    on_ready: Callable[[], None] | None = None,
    clock: Clock | None = None,
    connect: Connect = connect_edge,
) -> RunSummary:
    """Run until the source ends or `stop` is set, and every frame has its outcome.

    `progress` is called a few times a second, `on_ready` once, when everything is open and the
    first frame is about to be taken; both from this thread. Raises what opening the bundle, the
    source, the outputs, the keys or the metrics port raises; EdgeRequiredError; and the source's
    own error when it gave no frame at all (a later one is among the summary's `faults`).
    """
    with Device(config, clock=clock or MonotonicClock(), connect=connect) as device:
        if on_ready is not None:
            on_ready()
        return device.run(stop=stop, progress=progress)


class Device:
    """Everything a device holds open. Use it as a context manager, and run it once."""

    def __init__(self, config: DeviceConfig, *, clock: Clock, connect: Connect) -> None:
        self._config = config
        self._clock = clock
        self._opened = ExitStack()
        try:
            self._open(connect)
        except BaseException:
            self._opened.close()
            raise

    def _open(self, connect: Connect) -> None:
        config, clock = self._config, self._clock
        self._bundle = open_trusted(config)
        check_kind(config, self._bundle.manifest)
        self._way = None
        if config.has_edge:
            way = config.way
            self._way = remote_for(
                self._bundle.manifest, cut=way.cut, codec=way.codec, quality=way.quality
            )
        gates = GateSettings(
            exit_point=config.gates.exit_point,
            exit_policy=config.gates.exit_policy,
            filter=config.gates.filter,
        )
        self._head = HeadRunner(self._bundle, threads=config.threads, clock=clock, gates=gates)
        self._head.warm_up(
            ways=self._configured_ways(), whole=config.open_whole or self._way is None
        )
        self._source = self._open_source(config.pace)
        self._opened.callback(self._source.close)
        policy = decide_by(
            config,
            self._bundle.manifest,
            self._head,
            self._way,
            gates=gates,
            open_source=partial(self._open_source, "fast"),
            clock=clock,
        )
        self._board = open_board(config.output, rate_hz=self._source.rate_hz, clock=clock)
        self._opened.callback(self._board.close)
        metrics = serve(port=config.metrics_port, host=config.metrics_host)
        self._opened.callback(metrics.close)
        self._meter = DeviceMeter(metrics)
        self._port: ClientPort = NoEdge()
        if self._way is not None:
            self._port = connect(config, self._bundle.digest, clock)
        self._opened.callback(self._port.close)
        self._traces = open_traces(config, clock)
        if self._traces is not None:
            self._opened.callback(self._traces.close)
        self._ledger = Ledger()
        self._tally = PlacementTally()
        self._checkout = Checkout(ledger=self._ledger, deliver=self._deliver, clock=clock)
        spooler = open_spool(
            config.spool,
            self._way,
            port=self._port,
            head=self._head,
            checkout=self._checkout,
            clock=clock,
        )
        if spooler is not None:
            self._opened.callback(spooler.close)
        self._runner = Runner(
            port=self._port,
            head=self._head,
            policy=policy,
            checkout=self._checkout,
            clock=clock,
            settings=self._settings(),
            packed=partial(pack, self._bundle) if config.edge.push_bundles else None,
            spooler=spooler,
            traces=self._traces,
        )

    def _open_source(self, pace: Pace) -> Source:
        config = self._config
        opener = SourceOpener(pace=pace, deadline_s=config.deadline_s, clock=self._clock)
        return opener.open(config.source, self._bundle.manifest.preprocess)

    def _configured_ways(self) -> list[Remote]:
        """Those that are needed whatever a controller chooses."""
        config = self._config
        needed = config.goal is None or config.spool.folder is not None
        return [self._way] if self._way is not None and needed else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    def run(self, *, stop: threading.Event, progress: Tell | None = None) -> RunSummary:
        """See `run_device`."""
        log.info("device runs", extra=fields(source=self._source.name, bundle=self._bundle.name))
        inbox = Inbox(live=self._source.live, clock=self._clock, every=self._config.every)
        closing = threading.Event()
        threads = [threading.Thread(target=capture, args=(self._source, inbox), name="capture")]
        if self._way is not None:
            args = (self._port, inbox, closing)
            threads.append(threading.Thread(target=listen, args=args, name="listen"))
        loop = Loop(
            self._runner,
            inbox,
            clock=self._clock,
            stopped=stop.is_set,
            drain_s=self._config.drain_s,
            edge_required=self._config.edge.required and self._way is not None,
            tick=self._ticker(progress),
        )
        for thread in threads:
            thread.daemon = True  # a camera that hangs must not keep the process alive
            thread.start()
        try:
            source_fault = loop.run()
        finally:
            closing.set()
            inbox.close()
            self._source.close()
            for thread in threads:
                thread.join(_JOIN_S)
        if progress is not None:
            progress(self._progress())  # the last look, which the ticker may have passed over
        return self._summary(source_fault)

    def _summary(self, source_fault: HeadtailError | None) -> RunSummary:
        if source_fault is not None and not self._ledger.frame_count:
            raise source_fault
        traffic = self._port.traffic()
        spooler = self._runner.spooler
        spool = NO_SPOOL if spooler is None else spooler.count
        self._opened.close()
        summary = RunSummary(
            source=self._source.name,
            bundle=self._bundle.name,
            edge=self._runner.edge.name,
            goal=self._config.goal or "",
            cut=self._way.cut if self._way else "",
            codec=self._way.codec if self._way else "",
            totals=self._ledger.totals(),
            traffic=traffic,
            pushed_bytes=self._runner.pushed_bytes,
            late_answers=self._runner.late_answers,
            spool=spool,
            placements=self._tally.counts(),
            hedges=self._runner.hedges,
            outputs=self._board.paths,
            faults=(*self._board.failures, *([source_fault] if source_fault else [])),
            wall_s=self._checkout.busy_s,
        )
        outcomes = {outcome.value: n for outcome, n in summary.totals.outcomes.items() if n}
        log.info("device ends", extra=fields(frames=summary.frames, **outcomes))
        return summary

    def _settings(self) -> RunnerSettings:
        config = self._config
        return RunnerSettings(
            late=config.late or ("expire" if self._source.live else "answer"),
            max_in_flight=config.edge.max_in_flight,
            patience_s=config.edge.patience_s if self._way is not None else 0.0,
            hedge=config.controller.hedge,
            announce_tails=config.edge.announce_tails,
        )

    def _deliver(self, finished: Finished) -> None:
        self._meter.finished(finished.record)
        if self._traces is not None:
            self._traces.finished(finished.record)
        self._tally.add(finished.record)
        picture, record = finished.picture, finished.record
        if self._config.measure_jpeg and record.outcome is Outcome.EDGE and picture is not None:
            jpeg = codec_for("jpeg", dtype=DType.UINT8, quality=_REFERENCE_QUALITY)
            encoded = jpeg.encode(picture[np.newaxis])
            self._ledger.measure_picture(memoryview(encoded).nbytes)
        self._board.write(finished)

    def _ticker(self, progress: Tell | None) -> Callable[[], None]:
        """Looks at the gauges and tells the progress, but not more often than is of use."""
        due_at = self._clock.now()

        def tick() -> None:
            nonlocal due_at
            now = self._clock.now()
            if now < due_at:
                return
            due_at = now + _TELL_EVERY_S
            self._meter.look(self._runner)
            self._meter.link(self._port.estimate())
            if progress is not None:
                progress(self._progress())

        return tick

    def _progress(self) -> Progress:
        return Progress(
            frames=self._ledger.frame_count,
            frame_count=self._source.frame_count,
            outcomes={outcome: self._ledger.count(outcome) for outcome in Outcome},
            in_flight=self._runner.in_flight,
            edge_ready=self._runner.edge.ready,
            busy_s=self._checkout.busy_s,
        )
