"""LoRA adapters over real HTTP, with the official OpenAI client: a server of a tiny random model
and two adapters in the layout of `peft`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from processes import Headtail
from tiny_llama import tiny_checkpoint, write_adapter

openai = pytest.importorskip("openai")
pytestmark = [
    pytest.mark.system,
    # The client's own, on some Pythons.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:openai"),
]

MODELS = ["tiny", "tiny:formal", "tiny:brief"]
QUESTION = [{"role": "user", "content": "Hello"}]


def settings(folder: Path) -> Path:
    """A model `tiny`, its two adapters, and the configuration that serves them."""
    tiny_checkpoint(folder / "tiny")
    for seed, name in enumerate(["formal", "brief"]):
        write_adapter(folder / name, seed)
    path = folder / "cloud.toml"
    path.write_text(
        f'llm = "{folder / "tiny"}"\n'
        "[llm_adapters]\n"
        f'formal = "{folder / "formal"}"\n'
        f'brief = "{folder / "brief"}"\n'
    )
    return path


@pytest.fixture(scope="module", params=["in-process", "process"])
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    config = settings(tmp_path_factory.mktemp("adapters"))
    words = ("--config", config, "--port", "0", "--runtime", request.param)
    with Headtail("cloud", "serve", *words) as server:
        url = server.ready()["url"]
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60.0) as client:
            yield client


def said(client: Any, model: str) -> tuple[str, list[float]]:
    """A greedy answer, and what its tokens' probabilities are."""
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=24, logprobs=True
    )
    assert answer.model == model
    choice = answer.choices[0]
    return choice.message.content, [entry.logprob for entry in choice.logprobs.content]


def test_adapters_are_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == MODELS


def test_each_says_its_own_alone_and_beside_the_others(client: Any) -> None:
    alone = {model: said(client, model) for model in MODELS}
    assert len({text for text, _ in alone.values()}) == 3
    with ThreadPoolExecutor(9) as pool:
        together = list(pool.map(lambda model: said(client, model), 3 * MODELS))
    for model, (text, logprobs) in zip(3 * MODELS, together, strict=True):
        assert text == alone[model][0], model
        assert logprobs == pytest.approx(alone[model][1], abs=1e-3)


def test_one_that_is_not_there_is_not_found(client: Any) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        said(client, "tiny:absent")
    assert caught.value.code == "no-such-model"
    assert "tiny:absent" in caught.value.message
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="formal", prompt="Hello")


@pytest.mark.parametrize("runtime", ["in-process", "process"])
def test_a_truncated_adapter_ends_the_server_at_its_start(tmp_path: Path, runtime: str) -> None:
    config = settings(tmp_path)
    weights = tmp_path / "brief" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    words = ("--config", config, "--port", "0", "--runtime", runtime)
    with Headtail("cloud", "serve", *words) as server:
        assert server.process.wait(60) != 0
        errors = server.errors()
    told = " ".join(errors.split())  # it is wrapped
    assert str(tmp_path / "brief") in told
    assert "as the package `peft` writes it" in told
