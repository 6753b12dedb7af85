"""What a process and its worker say to each other, and that neither believes all it hears."""

from typing import Any

import msgspec
import numpy as np
import pytest

from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import (
    DecodeStep,
    Fault,
    PrefillChunk,
    TailItem,
    TailOutput,
    Task,
    TaskFailed,
    TaskResult,
    TextOutput,
)
from headtail_cloud.core.work import Work
from headtail_cloud.engines.modelled import ModelledEngine, Prices
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import BadMessageError
from headtail_cloud.runtime.engine_spec import EngineSpec, LoadedEngine, NoSuchFactoryError
from headtail_cloud.runtime.worker_message import MessageCodec

SEGMENT = Segment("yolo@1.0", "tail")


def test_tasks_arrive_as_they_were_sent() -> None:
    codec = MessageCodec(keep=False)
    given = TailInput(payload=b"tensor", shape=(1, 6), codec="q8", quantiser="q8", outputs=("a",))
    tasks: list[Task] = [
        TailItem(request_id="1", segment=SEGMENT, input=given),
        TailItem(request_id="2", segment=SEGMENT, input="anything"),
        PrefillChunk(request_id="3", model="m", tokens=(1, 2), start=4, blocks=(0, 7), last=True),
        DecodeStep(request_id="4", model="m", token=9, position=5, blocks=(3,)),
    ]
    packed = codec.run(tasks)
    assert packed.buffers == [b"tensor"], "payloads travel beside the message"
    came = codec.to_worker(packed.message, packed.buffers)
    assert isinstance(came, said.Run)
    assert [part.task for part in came.tasks] == tasks


def test_results_arrive_with_their_arrays() -> None:
    codec = MessageCodec(keep=True)
    output = {
        "boxes": np.arange(6, dtype=np.float32).reshape(1, 2, 3),
        "none": np.zeros((1, 0, 6), np.float32),
        "scalar": np.array(3, np.int64),
        "turned": np.arange(6, dtype=np.uint8).reshape(2, 3).T,
    }
    results: list[TaskResult] = [
        TailOutput(request_id="1", output=output, evidence=Evidence(confidence=0.5, answer=7)),
        TextOutput(request_id="2", token=4),
        TaskFailed(request_id="3", message="unreadable", fault=Fault.INPUT),
    ]
    packed = codec.pack(said.ran(results))
    buffers = [bytearray(memoryview(buffer)) for buffer in packed.buffers]
    came = codec.from_worker(packed.message, buffers)
    assert isinstance(came, said.Ran)
    tail, *others = [part.result for part in came.results]
    assert others == results[1:]
    assert isinstance(tail, TailOutput)
    assert tail.evidence == Evidence(confidence=0.5, answer=7)
    got: Any = tail.output
    for buffer in buffers:
        buffer[:] = bytes(len(buffer))
    for name, array in output.items():
        np.testing.assert_array_equal(got[name], array, err_msg="a kept array outlives its buffer")


def test_what_can_not_cross_is_refused_where_it_is_sent() -> None:
    codec = MessageCodec(keep=False)
    for value in (np.array(["text"], dtype=object), object()):
        with pytest.raises(TypeError, match="can't go to another process"):
            codec.pack(said.ran([TailOutput(request_id="1", output={"value": value})]))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"type": "Nothing"}),
        msgspec.msgpack.encode({"type": "Run", "tasks": [{"type": "Tail", "task": 3}]}),
        msgspec.msgpack.encode({"type": "Export", "blocks": ["x"], "positions": 1}),
    ],
)
def test_nonsense_is_no_message(message: bytes) -> None:
    codec = MessageCodec(keep=False)
    with pytest.raises(BadMessageError):
        codec.to_worker(message, [])
    with pytest.raises(BadMessageError):
        codec.from_worker(message, [])


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        (1, (0, "<f4", (1,))),
        (1, (-1, "<f4", (1,))),
        (1, (0, "|O", (1,))),
        (1, (0, "nonsense", (1,))),
        (2, (5, (1,), "raw", "", ())),
        (9, ()),
    ],
)
def test_an_array_that_is_none(code: int, parts: tuple[object, ...]) -> None:
    """Of a buffer that did not come, of objects, of no type, of the wrong size."""
    value = msgspec.msgpack.Ext(code, msgspec.msgpack.encode(parts))
    result = {"request_id": "1", "output": value}
    message = {"type": "Ran", "results": [{"type": "TailRan", "result": result}]}
    with pytest.raises(BadMessageError):
        MessageCodec(keep=False).from_worker(msgspec.msgpack.encode(message), [b"abc"][: code - 2])


def test_a_profile_estimates_as_the_engine_does() -> None:
    prices = Prices(step_s=1, prefill_s=2, decode_s=3, context_s=0.5, run_s=5, item_s=7)
    engine = ModelledEngine(limits=Capacity(max_batch=3, blocks=9, block_tokens=8), prices=prices)
    profile = said.profile_of(LoadedEngine(engine=engine, segments=(SEGMENT,)))
    assert profile.capacity == engine.capacity()
    for work in (
        Work(),
        Work(prefill_tokens=3, context_tokens=10),
        Work(decodes=2),
        Work(items={SEGMENT: 4}),
    ):
        assert profile.estimate(work) == pytest.approx(engine.estimate(work))


@pytest.mark.parametrize("factory", ["nowhere.at_all:engine", "headtail_cloud.config:engine", "x"])
def test_a_factory_that_is_not_there(factory: str) -> None:
    with pytest.raises(NoSuchFactoryError, match="no engine"):
        EngineSpec(factory=factory).load()
