"""From a configuration to what serves it: in this process, and in a worker's."""

from pathlib import Path

import pytest

from headtail_cloud.core.task import PrefillChunk, TextOutput
from headtail_cloud.core.work import Work
from headtail_cloud.engines.llm.adapters import BadAdapterError
from headtail_cloud.engines.llm.loading import describe_llm, llm_engine, load_llm
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.worker_message import MessageCodec, ran
from tiny_llama import SHAPE, tiny_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llm") / "tiny"
    tiny_checkpoint(place)
    return place


def test_what_is_served_has_the_names_of_its_adapters(folder: Path) -> None:
    adapters = {"support": folder / "nowhere"}
    described = describe_llm(str(folder), adapters=adapters)
    assert described.names == ("tiny", "tiny:support")
    assert described.context == SHAPE.context
    with pytest.raises(BadAdapterError):
        load_llm(str(folder), adapters=adapters)


def test_a_worker_loads_the_same_engine(folder: Path) -> None:
    engine, served = load_llm(str(folder), kv_mb=1, max_batch=2)
    spec = EngineSpec(
        factory=f"{llm_engine.__module__}:{llm_engine.__name__}",
        options={"model": str(folder), "kv_mb": 1, "max_batch": 2},
    )
    theirs = spec.load().engine
    assert theirs.capacity() == engine.capacity()
    assert theirs.estimate(Work(decodes=1)) > 0
    task = PrefillChunk(
        request_id="r",
        model="tiny",
        tokens=tuple(served.vocabulary.encode("Hello")),
        start=0,
        blocks=(3,),
        last=True,
        input={"temperature": 0.5, "seed": 4, "alternatives": 1},
    )
    assert theirs.step([task]) == engine.step([task])


def test_what_goes_with_a_token_goes_between_processes(folder: Path) -> None:
    engine, _ = load_llm(str(folder), kv_mb=1, max_batch=2)
    asked = {"temperature": 0, "bias": {65: 100.0}, "alternatives": 2}
    chunk = PrefillChunk(
        request_id="r", model="tiny", tokens=(1, 2), start=0, blocks=(0,), last=True, input=asked
    )
    codec = MessageCodec(keep=True)
    packed = codec.run([chunk])
    (there,) = codec.to_worker(packed.message, packed.buffers).tasks  # type: ignore[union-attr]
    results = engine.step([there.task])
    answer = codec.pack(ran(results))
    (back,) = codec.from_worker(answer.message, answer.buffers).results  # type: ignore[union-attr]
    assert isinstance(back.result, TextOutput)
    assert back.result.token == 65
    (own,) = results
    assert isinstance(own, TextOutput)
    assert isinstance(own.output, dict)
    assert isinstance(back.result.output, dict)
    assert back.result.output["logprob"] == own.output["logprob"]
