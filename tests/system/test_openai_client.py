"""The official OpenAI client, unmodified, against a real server with the real model. The archive
is fetched through the project's own assets, 93 MB once."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from headtail_cloud.engines.llm.model_store import checkpoint
from headtail_cloud.tenants import new_tenant
from headtail_models.assets.errors import UnreachableError
from processes import Headtail, wait_until

openai = pytest.importorskip("openai")
pytestmark = [
    pytest.mark.system,
    # The client's own, on some Pythons.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:openai"),
]

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An API key, and the file that knows it."""
    table = new_tenant("cameras")
    path = tmp_path_factory.mktemp("keys") / "tenants.toml"
    path.write_text(table)
    return table.split()[2], str(path)


@pytest.fixture(scope="module")
def url(key: tuple[str, str]) -> Iterator[str]:
    try:
        checkpoint("smollm2")
    except UnreachableError:
        pytest.skip("the model is not in the cache, and there is no network")
    words = ("--llm", "smollm2", "--port", "0", "--tenants", key[1])
    with Headtail("cloud", "serve", *words) as server:
        yield server.ready()["url"]


@pytest.fixture
def client(url: str, key: tuple[str, str]) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key[0], timeout=120.0) as client:
        yield client


def measured(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_it_answers(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["smollm2"]
    answer = client.chat.completions.create(
        model="smollm2",
        messages=CAPITAL,
        temperature=0,
        max_tokens=12,
        logprobs=True,
        top_logprobs=2,
    )
    assert answer.choices[0].message.content == "The capital of France is Paris."
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (37, 8)
    entries = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in entries) == answer.choices[0].message.content
    assert all(entry.top_logprobs[0].logprob >= entry.logprob - 1e-4 for entry in entries)


def test_it_streams_to_several_at_once(client: Any) -> None:
    texts: dict[int, str] = {}

    def ask(number: int) -> None:
        stream = client.chat.completions.create(
            model="smollm2",
            messages=CAPITAL,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
        texts[number] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert chunks[-1].usage.completion_tokens == 8

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(texts.values()) == {"The capital of France is Paris."}
    assert len(texts) == 3


def test_seeds_stops_and_plain_completions(client: Any) -> None:
    asked = {"model": "smollm2", "prompt": "Once upon a time", "max_tokens": 6, "seed": 7}
    one, two = (client.completions.create(**asked).choices[0].text for _ in range(2))
    assert one == two
    cut = client.completions.create(
        model="smollm2", prompt="One, two, three,", temperature=0, max_tokens=12, stop=[","]
    )
    assert "," not in cut.choices[0].text
    assert cut.choices[0].finish_reason == "stop"


def test_embeddings_lie_near_what_they_are_like(client: Any) -> None:
    found = client.embeddings.create(
        model="smollm2", input=["a small cat", "a small dog", "the stock market fell"]
    )
    cat, dog, market = (entry.embedding for entry in found.data)
    assert len(cat) == 576
    assert sum(a * b for a, b in zip(cat, dog, strict=True)) > sum(
        a * b for a, b in zip(cat, market, strict=True)
    )


def test_mistakes_are_the_client_s_exceptions(client: Any, url: str) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=CAPITAL)
    assert missing.value.code == "no-such-model"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="smollm2", messages=CAPITAL, temperature=7)
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="smollm2", prompt="a " * 9000)
    assert long.value.code == "context-length"
    stranger = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong")
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_a_client_that_leaves_in_mid_stream_is_forgotten(client: Any, url: str) -> None:
    before = measured(url, 'headtail_cloud_requests_total{outcome="cancelled"}')
    stream = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": "Write a long story."}],
        max_tokens=1000,
        stream=True,
    )
    next(iter(stream))
    stream.close()
    name = 'headtail_cloud_requests_total{outcome="cancelled"}'
    wait_until(lambda: measured(url, name) == before + 1, "the text was not cancelled")
    assert measured(url, "headtail_cloud_requests_here") == 0


def test_tools_reach_the_model(client: Any) -> None:
    tool = {
        "type": "function",
        "function": {"name": "count_people", "parameters": {"type": "object", "properties": {}}},
    }
    with_tool, without = (
        client.chat.completions.create(
            model="smollm2", messages=CAPITAL, max_tokens=1, temperature=0, **more
        )
        for more in ({"tools": [tool]}, {})
    )
    told = with_tool.usage.prompt_tokens - without.usage.prompt_tokens
    assert told > len(json.dumps(tool)) / 8
