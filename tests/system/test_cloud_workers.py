"""Worker processes for real: started afresh and forked, killed, hung, and asked for their state."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headtail_cloud.core.engine import EngineFailedError, EngineLostError, StateError, StateRef
from headtail_cloud.core.task import DecodeStep, PrefillChunk, TailItem, TailOutput, TextOutput
from headtail_cloud.engines.modelled import next_token
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.runtime.channel import SHARED_FROM_BYTES
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.process_engine import ProcessEngine
from headtail_cloud.runtime.worker_process import (
    WorkerProcess,
    WorkerStartError,
    ZygoteProcess,
    start_fresh,
)
from processes import wait_until
from worker_engines import SEGMENT, spec

pytestmark = pytest.mark.system

LIMIT_S = 30.0


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[ZygoteProcess]:
    zygote = ZygoteProcess(spec(tmp_path), resident=True, start_limit_s=LIMIT_S)
    yield zygote
    zygote.stop()


@pytest.fixture
def engine(zygote: ZygoteProcess) -> Iterator[ProcessEngine]:
    engine = ProcessEngine(*zygote.fork(), limit_s=LIMIT_S)
    yield engine
    engine.close()


def item(name: str, given: object = None) -> TailItem:
    return TailItem(request_id=name, segment=SEGMENT, input=given)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("floats", [4, SHARED_FROM_BYTES])
def test_a_worker_computes_what_it_is_given(engine: ProcessEngine, floats: int) -> None:
    assert engine.capacity().max_batch == 4
    tensors = [np.full(floats, n, np.float32) for n in range(3)]
    for round_ in range(2):
        items = [
            item(str(n), TailInput(payload=tensor.data, shape=(floats,)))
            for n, tensor in enumerate(tensors)
        ]
        results = engine.step(items)
        for tensor, result in zip(tensors, results, strict=True):
            assert isinstance(result, TailOutput)
            assert isinstance(result.output, dict)
            np.testing.assert_array_equal(result.output["echo"], tensor, err_msg=str(round_))
            assert result.output["pid"] == engine.pid != os.getpid()


def test_state_moves_from_one_process_to_another(zygote: ZygoteProcess) -> None:
    prompt = (5, 6, 7, 8, 9)
    source, target = (ProcessEngine(*zygote.fork(), limit_s=LIMIT_S) for _ in range(2))
    try:
        chunk = PrefillChunk(
            request_id="1", model="m", tokens=prompt, start=0, blocks=(3, 1), last=True
        )
        (first,) = source.step([chunk])
        assert isinstance(first, TextOutput)
        assert first.token is not None
        state = source.export(StateRef(blocks=(3, 1), positions=5))
        target.import_(StateRef(blocks=(8, 9), positions=5), state)
        decode = DecodeStep(request_id="1", model="m", token=first.token, position=5, blocks=(8, 9))
        (second,) = target.step([decode])
        assert isinstance(second, TextOutput)
        assert second.token == next_token([*prompt, first.token])
        with pytest.raises(StateError):
            target.import_(StateRef(blocks=(1,), positions=4), b"no state")
        with pytest.raises(StateError):
            source.export(StateRef(blocks=(1,), positions=400))
        assert source.step([item("1")]), "a refusal costs nothing"
    finally:
        source.close()
        target.close()


def test_a_step_that_raises_leaves_the_worker_alive(engine: ProcessEngine) -> None:
    with pytest.raises(EngineFailedError, match="the engine failed"):
        engine.step([item("raises")])
    assert engine.step([item("fine")])


def test_a_worker_that_dies_is_lost_for_good(engine: ProcessEngine) -> None:
    with pytest.raises(EngineLostError, match="lost"):
        engine.step([item("kills")])
    with pytest.raises(EngineLostError):
        engine.step([item("fine")])
    with pytest.raises(EngineLostError):
        engine.export(StateRef(blocks=(), positions=0))


def test_a_worker_that_hangs_is_killed(zygote: ZygoteProcess) -> None:
    engine = ProcessEngine(*zygote.fork(), limit_s=0.2)
    with pytest.raises(EngineLostError, match="in time"):
        engine.step([item("hangs")])
    wait_until(lambda: not alive(engine.pid), "the death of a worker")
    engine.close()


def test_workers_end_with_their_channel_and_leave_nothing(zygote: ZygoteProcess) -> None:
    engines = [ProcessEngine(*zygote.fork(), limit_s=LIMIT_S) for _ in range(3)]
    for engine in engines:
        engine.close()
        wait_until(lambda pid=engine.pid: not alive(pid), "the end of a worker")  # type: ignore[misc]


def test_children_outlive_their_zygote(tmp_path: Path) -> None:
    zygote = ZygoteProcess(spec(tmp_path), resident=True, start_limit_s=LIMIT_S)
    engine = ProcessEngine(*zygote.fork(), limit_s=LIMIT_S)
    os.kill(zygote.pid, signal.SIGKILL)
    with pytest.raises(WorkerStartError):
        zygote.fork()
    assert engine.step([item("1")])
    engine.close()
    zygote.stop()


def test_a_bare_zygote_lets_its_children_load(tmp_path: Path) -> None:
    zygote = ZygoteProcess(spec(tmp_path), resident=False, start_limit_s=LIMIT_S)
    assert zygote.profile is None
    engine = ProcessEngine(*zygote.fork(), limit_s=LIMIT_S)
    assert engine.step([item("1")])
    engine.close()
    zygote.stop()


def test_a_fresh_worker(tmp_path: Path) -> None:
    engine = ProcessEngine(*start_fresh(spec(tmp_path), start_limit_s=LIMIT_S), limit_s=LIMIT_S)
    assert engine.step([item("1")])
    engine.close()
    assert not alive(engine.pid)


def test_an_engine_with_threads_is_not_forked() -> None:
    threaded = EngineSpec(factory="worker_engines:threaded")
    with pytest.raises(WorkerStartError, match="starts threads"):
        ZygoteProcess(threaded, resident=True, start_limit_s=LIMIT_S)
    worker, _ = start_fresh(threaded, start_limit_s=LIMIT_S)
    worker.close()


@pytest.mark.parametrize(
    ("factory", "why"),
    [("worker_engines:broken", "too large"), ("worker_engines:nothing", "no engine")],
)
def test_an_engine_that_can_not_be_loaded(factory: str, why: str) -> None:
    bad = EngineSpec(factory=factory)
    for start in (
        lambda: start_fresh(bad, start_limit_s=LIMIT_S),
        lambda: ZygoteProcess(bad, resident=True, start_limit_s=LIMIT_S),
    ):
        with pytest.raises(WorkerStartError, match=why):
            start()


def test_a_process_that_does_not_report_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(WorkerStartError, match="in time"):
        start_fresh(spec(tmp_path), start_limit_s=0.0001)


def test_a_python_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(WorkerStartError, match="no worker process"):
        WorkerProcess.fresh("worker")
