"""What an actor answers, and how its death is told, without Ray."""

import os
import select
from pathlib import Path

import numpy as np
import pytest

from headtail_cloud.core.task import TailItem, TailOutput
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import BadMessageError
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.ray_actor import EngineActor, as_arrays, as_buffers
from headtail_cloud.runtime.ray_bell import DeathBell
from headtail_cloud.runtime.worker_message import MessageCodec, Packed
from worker_engines import SEGMENT, spec

CODEC = MessageCodec(keep=True)


def ask(actor: EngineActor, packed: Packed) -> said.FromWorker:
    message, arrays = actor.ask(packed.message, as_arrays(packed.buffers))
    return CODEC.from_worker(message, as_buffers(arrays))


@pytest.fixture
def actor() -> EngineActor:
    return EngineActor()


def test_it_loads_an_engine_and_runs_it(actor: EngineActor, tmp_path: Path) -> None:
    ready = ask(actor, CODEC.pack(said.Load(spec=spec(tmp_path))))
    assert isinstance(ready, said.Ready)
    assert ready.profile.max_batch == 4
    tensor = np.arange(6, dtype=np.float32)
    given = TailInput(payload=tensor.data, shape=(6,))
    ran = ask(actor, CODEC.run([TailItem(request_id="1", segment=SEGMENT, input=given)]))
    assert isinstance(ran, said.Ran)
    (part,) = ran.results
    assert isinstance(part.result, TailOutput)
    assert isinstance(part.result.output, dict)
    np.testing.assert_array_equal(part.result.output["echo"], tensor)
    assert part.result.output["pid"] == actor.pid() == os.getpid()


def test_a_step_that_raises_and_an_engine_that_is_not_there(
    actor: EngineActor, tmp_path: Path
) -> None:
    step = CODEC.run([TailItem(request_id="raises", segment=SEGMENT, input=None)])
    assert isinstance(ask(actor, step), said.Refused)
    broken = CODEC.pack(said.Load(spec=EngineSpec(factory="worker_engines:broken")))
    assert ask(actor, broken) == said.NotReady(reason="MemoryError: too large")
    ask(actor, CODEC.pack(said.Load(spec=spec(tmp_path))))
    step = CODEC.run([TailItem(request_id="raises", segment=SEGMENT, input=None)])
    assert isinstance(ask(actor, step), said.StepBroke)


def test_what_is_no_message_is_refused(actor: EngineActor) -> None:
    with pytest.raises(BadMessageError):
        actor.ask(b"nothing", [])


def test_buffers_travel_uncopied() -> None:
    whole = np.arange(100, dtype=np.uint8)
    for buffer in (whole.data, whole.tobytes(), bytearray(b"abc"), b""):
        (array,) = as_arrays([buffer])
        assert bytes(as_buffers([array])[0]) == bytes(buffer)
    assert np.shares_memory(as_arrays([whole.data])[0], whole)


def readable(bell: DeathBell) -> bool:
    return bool(select.select([bell.handle], [], [], 0)[0])


def test_a_bell_is_heard_once_it_has_been_rung() -> None:
    bell = DeathBell()
    assert not readable(bell)
    bell.ring()
    assert readable(bell)
    bell.ring()
    assert readable(bell), "and stays so"
    bell.close()
    bell.close()


def test_a_bell_that_is_rung_after_it_was_closed_touches_no_descriptor() -> None:
    """Its number may be another file's by then."""
    bell = DeathBell()
    bell.close()
    with Path(os.devnull).open("rb") as taken:
        assert taken.fileno() == bell.handle
        bell.ring()
    assert bell.rung
