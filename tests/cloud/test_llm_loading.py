"""From a configuration to what serves it: in this process, and in a worker's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headtail_cloud.core.task import PrefillChunk, TextOutput
from headtail_cloud.core.work import Work
from headtail_cloud.engines.llm.adapters import BadAdapterError
from headtail_cloud.engines.llm.loading import describe_llm, llm_engine, load_llm
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.worker_message import MessageCodec, ran
from tiny_llama import SHAPE, tiny_checkpoint, write_adapter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("llm") / "tiny"
    tiny_checkpoint(place)
    return place


def test_what_is_served_has_the_names_of_its_adapters(folder: Path, tmp_path: Path) -> None:
    adapters = {"support": write_adapter(tmp_path / "support", 1)}
    described = describe_llm(str(folder), adapters=adapters)
    assert described.names == ("tiny", "tiny:support")
    assert described.context == SHAPE.context
    engine, served = load_llm(str(folder), adapters=adapters, kv_mb=1, max_batch=2)
    assert engine.models == served.names == described.names


@pytest.mark.parametrize("load", [describe_llm, load_llm])
def test_a_bad_adapter_is_refused_before_anything_is_served(
    folder: Path, tmp_path: Path, load: Callable[..., object]
) -> None:
    whole = write_adapter(tmp_path / "whole", 1)
    weights = whole / "adapter_model.safetensors"
    content = weights.read_bytes()
    for bad in (content[: len(content) // 2], content[:40], b""):
        weights.write_bytes(bad)
        with pytest.raises(BadAdapterError, match="whole"):
            load(str(folder), adapters={"a": whole})
    weights.unlink()
    with pytest.raises(BadAdapterError, match="No such file"):
        load(str(folder), adapters={"a": whole})


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("0.self_attn.q_proj.lora_A", (4, SHAPE.width + 2)),
        ("0.self_attn.q_proj.lora_B", (SHAPE.query_width - 2, 4)),
        ("0.self_attn.v_proj.lora_B", (SHAPE.kv_width + 8, 4)),
        ("2.mlp.down_proj.lora_A", (4, SHAPE.width)),
        ("2.mlp.down_proj.lora_B", (SHAPE.width, 5)),
        ("2.mlp.up_proj.lora_A", (SHAPE.width,)),
        ("7.mlp.up_proj.lora_A", (4, SHAPE.width)),
    ],
)
def test_an_adapter_of_another_shape_is_refused(
    folder: Path, tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    whole = write_adapter(tmp_path / "whole", 1)
    weights = whole / "adapter_model.safetensors"
    tensors = load_file(weights)
    tensors[f"base_model.model.model.layers.{name}.weight"] = torch.zeros(shape)
    # Not written over what is still mapped.
    save_file(tensors, whole / "changed")
    (whole / "changed").replace(weights)
    with pytest.raises(BadAdapterError, match="whole"):
        describe_llm(str(folder), adapters={"a": whole})


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


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "LOHA"}, "LOHA"),
        ({"use_dora": True}, "DoRA"),
        ({"rank_pattern": {"q_proj": 8}}, "differ"),
        ({"alpha_pattern": {"q_proj": 8.0}}, "differ"),
        ({"r": 8}, "not of rank 8"),
        ({"r": 0}, "r"),
        ({"lora_alpha": "much"}, "lora_alpha"),
    ],
)
def test_a_configuration_that_would_be_heeded_wrongly_is_refused(
    folder: Path, tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadAdapterError, match=message):
        describe_llm(str(folder), adapters={"a": write_adapter(tmp_path / "whole", 1, **config)})
