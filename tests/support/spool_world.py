"""A spool for the device's bench, and a world in which device and edge are killed at random."""

import random
from collections import Counter
from collections.abc import Callable

from device_doubles import ANSWER, DIGEST, WAY, Bench, FakeHead, frame
from headtail_device.config import Drop, Sync
from headtail_device.delivery import Checkout, Finished
from headtail_device.head import Head
from headtail_device.ledger import Ledger, Outcome
from headtail_device.policy import FixedPolicy
from headtail_device.record import FrameRecord
from headtail_device.runner import Runner, RunnerSettings
from headtail_device.spool import Backlog, Spooler, SpoolLog, SpoolSettings
from headtail_device.spool.memory import Killed, MemoryDisk
from headtail_device.spool.record import ENDED
from headtail_fabric.clock import Clock, FakeClock
from headtail_fabric.peer.events import RequestArrived, RequestCancelled
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import ErrorCode, Hints, Timings

EPOCH_S = 1_700_000_000.0


def spooler(
    disk: MemoryDisk,
    *,
    port: ClientPort,
    head: Head,
    checkout: Checkout,
    clock: Clock,
    boot: int = 1,
    max_bytes: int = 20_000,
    segment_bytes: int = 1000,
    max_entries: int = 1000,
    drop: Drop = "oldest",
    sync: Sync = "segment",
    keep_s: float = 3600.0,
    share: float = 0.25,
    epoch_s: float = EPOCH_S,
) -> Spooler:
    return Spooler(
        spool=SpoolLog(disk, boot=boot, segment_bytes=segment_bytes, sync=sync),
        backlog=Backlog(share=share, keep_s=keep_s),
        port=port,
        head=head,
        checkout=checkout,
        clock=clock,
        settings=SpoolSettings(
            way=WAY,
            max_bytes=max_bytes,
            max_entries=max_entries,
            drop=drop,
            deadline_s=10.0,
            epoch_s=epoch_s,
        ),
    )


def spooling(disk: MemoryDisk, **how: object) -> Callable[[Bench], Spooler]:
    """For `Bench(spool=...)`."""

    def make(bench: Bench) -> Spooler:
        return spooler(
            disk,
            port=bench.client,
            head=bench.head,
            checkout=bench.checkout,
            clock=bench.clock,
            **how,  # type: ignore[arg-type]
        )

    return make


class StrictDisk(MemoryDisk):
    """Fails a test in which an entry ends twice on disk."""

    def put(self, name: str, at: int, value: int) -> None:
        assert self.files[name][at] != ENDED, "an entry ended twice"
        super().put(name, at, value)


class KillWorld:
    """One device and one edge, each killed now and then; a frame is known by its origin.

    `lines` is what the outputs have, which outlive the device as a file does; `lost` are the
    frames that a device held in memory alone when it was killed.
    """

    def __init__(self, seed: int, *, drop: Drop = "oldest") -> None:
        self.draw = random.Random(seed)
        self.clock = FakeClock(100.0)
        self.link = MemoryLink(self.clock)
        self.disk = StrictDisk()
        self.lines: list[tuple[int, FrameRecord]] = []
        self.fed: list[str] = []
        self.lost: set[str] = set()
        self.device_kills = self.edge_kills = 0
        self._drop = drop
        self._starts = 0
        self._arrived: list[RequestArrived] = []
        self._kill_at_line: int | None = None
        self.start_edge()
        self.start_device()

    def start_edge(self) -> None:
        self._arrived.clear()
        self.server = MemoryServer(self.link, window=4, seed=self.draw.randrange(2**31))
        self.server.serve_bundles((DIGEST,))

    def start_device(self) -> None:
        self._starts += 1
        self._index = 0
        self._kill_at_line = self.disk.kill_in = None
        self.ledger = Ledger()
        self.client = MemoryClient(self.link, bundles=(DIGEST,), seed=self.draw.randrange(2**31))
        head = FakeHead(self.clock, head_s=0.001, whole_s=0.01)
        checkout = Checkout(ledger=self.ledger, deliver=self._deliver, clock=self.clock)
        self.runner = Runner(
            port=self.client,
            head=head,
            policy=FixedPolicy(remote=WAY),
            checkout=checkout,
            clock=self.clock,
            settings=RunnerSettings(late="answer", max_in_flight=3, patience_s=0.0),
            packed=None,
            spooler=spooler(
                self.disk,
                port=self.client,
                head=head,
                checkout=checkout,
                clock=self.clock,
                boot=self._starts,
                max_bytes=4000,
                drop=self._drop,
                keep_s=120.0,
            ),
        )

    def step(self) -> None:
        """Something happens; the device may be killed in the middle of it."""
        act = self.draw.choices(
            [self._feed, self._respond, self._pass_time, self._cut, self._heal, self._fault],
            [8, 8, 4, 1, 3, 2],
        )[0]
        try:
            act()
            self._pump()
        except Killed:
            self.kill_device()
        if self.draw.random() < 0.02:
            self.edge_kills += 1
            self.start_edge()
        self.check()

    def kill_device(self) -> None:
        self.device_kills += 1
        told = {record.origin for _, record in self.lines}
        self.lost |= set(self.fed) - told
        del self.link._clients[self.client.route]  # nobody says goodbye
        self.start_device()

    def arm(self) -> None:
        """The device is killed soon: in a write to the disk, or between output and disk."""
        if self.draw.random() < 0.7:
            self.disk.kill_in = self.draw.randrange(6)
        else:
            self._kill_at_line = self.draw.randrange(6)

    def settle(self) -> None:
        """Everything works again, until nothing is left to do."""
        self.disk.kill_in = self.disk.room_bytes = self._kill_at_line = None
        self.link.heal()
        for _ in range(2000):
            self._pass_time()
            while self._arrived:
                self._answer(self._arrived.pop(0))
            self._pump()
            assert self.runner.spooler is not None
            if self.runner.idle and not self.runner.spooler.count.waiting:
                return
        raise AssertionError(f"the spool does not empty: {self.runner.spooler!r}")

    def check(self) -> None:
        """The sums hold."""
        totals = self.ledger.totals()
        assert totals.frames == sum(totals.outcomes.values()) + totals.open
        assert self.runner.spooler is not None
        assert totals[Outcome.SPOOLED] == self.runner.spooler.count.waiting

    def check_outcomes(self) -> Counter[Outcome]:
        """Every frame that was fed has exactly one final outcome; returns them."""
        finals: dict[str, list[tuple[int, FrameRecord]]] = {origin: [] for origin in self.fed}
        for line in self.lines:
            if line[1].outcome is not Outcome.SPOOLED:
                finals[line[1].origin].append(line)
        counted: Counter[Outcome] = Counter()
        for origin, lines in finals.items():
            if not lines:
                assert origin in self.lost, f"{origin} vanished"
                continue
            first = lines[0][1]
            counted[first.outcome] += 1
            # Told again only under its spool key, by a later run, after a kill in between.
            assert len({record.spool for _, record in lines}) == 1
            runs = [run for run, _ in lines]
            assert len(set(runs)) == len(runs)
            assert first.spool or len(lines) == 1
        return counted

    def _deliver(self, finished: Finished) -> None:
        if self._kill_at_line is not None:
            self._kill_at_line -= 1
            if self._kill_at_line < 0:
                if self.draw.random() < 0.5:
                    self.lines.append((self._starts, finished.record))
                raise Killed
        self.lines.append((self._starts, finished.record))

    def _feed(self) -> None:
        if not self.runner.wants_frame:
            return
        origin = f"frame-{len(self.fed)}"
        self.fed.append(origin)
        made = frame(self._index, captured_at=self.clock.now(), deadline_s=0.5, origin=origin)
        self._index += 1
        self.runner.on_item(made)

    def _respond(self) -> None:
        if not self._arrived:
            return
        request = self._arrived.pop(self.draw.randrange(len(self._arrived)))
        fate = self.draw.random()
        if fate < 0.8:
            self._answer(request)
        elif fate < 0.9:
            self.server.busy(request.session, request.request.id, retry_after_s=1, hints=Hints())
        else:
            self.server.fail(request.session, request.request.id, ErrorCode.INTERNAL, "no")

    def _answer(self, request: RequestArrived) -> None:
        self.server.respond(
            request.session,
            request.request.id,
            tensors=(ANSWER,),
            payloads=(b"\0",),
            timings=Timings(),
            hints=Hints(),
        )

    def _pass_time(self) -> None:
        self.clock.advance(self.draw.choice([0.02, 0.3, 2.0]))

    def _cut(self) -> None:
        self.link.cut()

    def _heal(self) -> None:
        self.link.heal()

    def _fault(self) -> None:
        self.disk.room_bytes = self.draw.choice([None, None, 0, 100, 5000])

    def _pump(self) -> None:
        for _ in range(3):
            while (heard := self.server.poll(0)) is not None:
                match heard:
                    case RequestArrived():
                        self._arrived.append(heard)
                    case RequestCancelled():
                        self._arrived = [a for a in self._arrived if a.request.id != heard.id]
            while (event := self.client.poll(0)) is not None:
                self.runner.on_event(event)
            self.runner.on_time()
        while self.runner.has_work:
            self.runner.work()
