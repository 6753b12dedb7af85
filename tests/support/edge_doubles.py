"""An edge without threads: devices and edge joined in memory, worked step by step."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from headtail_edge.batcher import Batch, Batcher
from headtail_edge.canary import Canaries
from headtail_edge.costs import Costs
from headtail_edge.health import Health
from headtail_edge.intake import Intake
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.part_store import PartStore
from headtail_edge.plan import TailPlan
from headtail_edge.push import PushCore
from headtail_edge.pushed import PushedBundles
from headtail_edge.registry import BundleRegistry
from headtail_edge.server import EdgeServer
from headtail_edge.spent import Spent, Took
from headtail_edge.tail_runner import Runner, TailRunner
from headtail_edge.tenants import Flow, LimitsConfig, TenantConfig, Tenants
from headtail_edge.worker import Worker
from headtail_fabric.clock import FakeClock
from headtail_fabric.codec.base import Array
from headtail_fabric.metrics import Counter, NullMetrics
from headtail_fabric.peer.events import ClientEvent
from headtail_fabric.peer.memory import MemoryClient, MemoryLink, MemoryServer
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import Buffer, DType, TensorInfo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.content import Nowhere, copy_measured
from headtail_models.bundle.manifest import MANIFEST, decode_manifest, encode_manifest
from headtail_models.bundle.specimen import write_specimen
from headtail_models.stage import Stage

SHARE = Flow(name="device cam", weight=1.0, quota=1000, rate=None)


def job(plan: TailPlan, tensor: TensorInfo, payload: Buffer, *, id: int = 1) -> Job:
    """That came at 0 and has 9 s."""
    return Job(
        session=b"s" * 16,
        id=id,
        plan=plan,
        tensor=tensor,
        payload=payload,
        arrived_at=0.0,
        deadline_at=9.0,
        share=SHARE,
    )


def crossing(bundle: Bundle, cut: str, *, seed: int = 0) -> Array:
    """A tensor (1, ...) such as crosses at that cut of the specimen."""
    shape = bundle.cut(cut).tensor.shape
    return np.random.default_rng(seed).random((1, *shape), dtype=np.float32)


def encoded(bundle: Bundle, cut: str, tensor: Array, codec: str) -> tuple[TensorInfo, Buffer]:
    """That tensor as a device sends it."""
    codecs = bundle.codecs(cut)
    info = TensorInfo(
        name=bundle.cut(cut).tensor.name,
        dtype=DType.FLOAT32,
        shape=tensor.shape,
        codec=codec,
        quantiser=codecs.table(codec),
    )
    return info, codecs.new(codec).encode(tensor)


def took(batch: Batch[Job], seconds: float) -> Spent:
    """That the tail of a batch of one cut took so long."""
    (plan,) = {job.plan for job in batch.jobs}
    jobs = len(batch.jobs)
    return Spent(runs=[Took(plan=plan.key, jobs=jobs, gmacs=plan.gmacs, seconds=seconds)])


def write_with_a_bad_coder(folder: Path) -> Bundle:
    """A bundle whose hashes are right, and whose coding model is none: its builder has a bug."""
    write_specimen(folder, gated=True)
    (folder / "code.rans").write_bytes(b"no coding model")
    manifest = decode_manifest((folder / MANIFEST).read_bytes())
    listed = []
    for entry in manifest.files:
        with (folder / entry.path).open("rb") as file:
            listed.append(copy_measured(file, Nowhere(), entry.path))
    (folder / MANIFEST).write_bytes(encode_manifest(replace(manifest, files=tuple(listed))))
    return open_bundle(folder)


class ScriptedStage:
    """A stage that fails when `fails` says so of its input, else runs `inner`; it notes the sizes
    of the batches that it was given."""

    def __init__(self, inner: Stage, fails: Callable[[Array], bool]) -> None:
        self._inner = inner
        self._fails = fails
        self.batches: list[int] = []

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        (tensor,) = inputs.values()
        self.batches.append(tensor.shape[0])
        if self._fails(tensor):
            raise RuntimeError("out of memory")
        return self._inner.run(inputs)


class CountingMetrics(NullMetrics):
    """Keeps the totals of counters, as `{name: {label values: total}}`."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[tuple[str, ...], float]] = {}

    def counter(self, name: str, description: str, labels: Any = ()) -> Counter:
        return _Total(self.totals.setdefault(name, {}))


class _Total:
    def __init__(self, totals: dict[tuple[str, ...], float]) -> None:
        self._totals = totals

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(str(value) for value in labels.values())
        self._totals[key] = self._totals.get(key, 0) + amount


class AskingServer(MemoryServer):
    """Notes what devices were asked for: session, digest, offset."""

    asked: list[tuple[bytes, bytes, int]]

    def need_bundle(self, session: bytes, digest: bytes, offset: int) -> None:
        self.asked = [*getattr(self, "asked", []), (session, digest, offset)]
        super().need_bundle(session, digest, offset)


class Rig:
    """An edge on a fake clock, with a link for devices. Nothing happens but by `step`."""

    def __init__(
        self,
        folder: Path,
        *bundles: Path,
        push: bool = False,
        may_push: Callable[[str], bool] = lambda user: True,
        max_bundle_bytes: int = 2**20,
        window: int = 16,
        tenants: Mapping[str, TenantConfig] | None = None,
        limits: LimitsConfig | None = None,
        canary: Mapping[str, float] | None = None,
        **batching: Any,
    ) -> None:
        self.clock = FakeClock(100.0)
        self.link = MemoryLink(self.clock)
        self.port = AskingServer(self.link, window=window)
        self.counted = CountingMetrics()
        self.metrics = metrics = EdgeMetrics(self.counted)
        self.registry = BundleRegistry(cache_dir=folder / "cache")
        for path in bundles:
            self.registry.load(path)
        self.canaries = Canaries(canary or {}, self.registry.get)
        self.costs = Costs()
        sizes = {"max_batch": 8, "queue_limit": 8, **batching}
        self.queue = JobQueue(
            Batcher[Job](**sizes, costs=self.costs),
            costs=self.costs,
            workers=1,
            metrics=metrics,
            clock=self.clock,
        )
        self.pushed = PushedBundles(folder / "pushed", max_bytes=max_bundle_bytes, max_bundles=2)
        self.intake = Intake(
            port=self.port,
            registry=self.registry,
            core=PushCore(max_bytes=max_bundle_bytes),
            parts=PartStore(folder / "pushed"),
            pushed=self.pushed,
            may_push=may_push,
            metrics=metrics,
            clock=self.clock,
        )
        self.server = EdgeServer(
            port=self.port,
            registry=self.registry,
            queue=self.queue,
            canaries=self.canaries,
            tenants=Tenants(
                tenants or {},
                limits or LimitsConfig(max_waiting=sizes["queue_limit"]),
                queue_limit=sizes["queue_limit"],
            ),
            intake=self.intake if push else None,
            metrics=metrics,
            max_pixels=1_000_000,
            health=Health(self.clock),
            clock=self.clock,
        )
        self.run_with(TailRunner(clock=self.clock))
        self.registry.subscribe(
            lambda digests: self.port.serve_bundles(digests, self.canaries.offered)
        )
        self.registry.subscribe(self.queue.serving)

    def run_with(self, runner: Runner) -> None:
        """From now on batches are computed by `runner`."""
        self.worker = Worker(
            queue=self.queue,
            port=self.port,
            runner=runner,
            metrics=self.metrics,
            clock=self.clock,
        )

    @property
    def requests(self) -> dict[str, float]:
        """How requests have ended so far."""
        return {outcome: n for (outcome,), n in self.counted.totals["edge_requests"].items()}

    def receive(self) -> None:
        """Let everything that was sent arrive, and be queued or refused."""
        while (event := self.port.poll(0.0)) is not None:
            self.server.handle(event)

    def compute(self) -> None:
        """Let the worker do what waits."""
        while self.queue.load().waiting:
            batch = self.queue.take()
            assert batch is not None
            self.worker.serve(batch)

    def step(self) -> None:
        """Receive, compute, and take in parts, until nothing moves."""
        while True:
            self.receive()
            self.compute()
            if not self.intake.work(0.0):
                break
        self.link.carry()

    def device(self, **options: Any) -> MemoryClient:
        """A connected device."""
        client = MemoryClient(self.link, **options)
        self.step()
        events(client)
        return client


def events(client: MemoryClient) -> list[ClientEvent]:
    """What a device has been told since the last time."""
    found = []
    while (event := client.poll(0.0)) is not None:
        found.append(event)
    return found


def send(
    client: ClientPort,
    bundle: Bundle,
    cut: str = "late",
    *,
    codec: str = "raw",
    seed: int = 0,
    deadline_s: float = 10.0,
) -> int:
    """Submit a request for the specimen; returns its id."""
    info, payload = encoded(bundle, cut, crossing(bundle, cut, seed=seed), codec)
    return client.submit(
        bundle=bundle.digest,
        cut=cut,
        tensors=[info],
        payloads=[payload],
        deadline_s=deadline_s,
    )
