"""The OpenAI API in memory: a tiny network, real scheduler and engine, no socket."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from asgi import Reply, call
from headtail_cloud.core.actions import Finish, Outcome
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.engines.llm.checkpoint import Checkpoint
from headtail_cloud.engines.llm.engine import LlmEngine, LlmOptions
from headtail_cloud.engines.llm.served_text import ServedText
from headtail_cloud.gateway.app import Gateway
from headtail_cloud.gateway.deployment import Deployment
from headtail_cloud.gateway.event_stream import EventStream
from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.gateway.limits import Limits
from headtail_cloud.metrics import CloudMetrics
from headtail_cloud.open_ai.answer import ChatAnswer
from headtail_cloud.open_ai.message import ChatRequest, parse
from headtail_cloud.open_ai.service import TextEnd, TextLimits, TextPiece, TextService
from headtail_cloud.runtime.in_process import InProcessRuntime
from headtail_cloud.tenants import Tenant, Tenants
from headtail_fabric.metrics import PrometheusMetrics
from tiny_llama import SHAPE, tiny_checkpoint

Json = dict[str, Any]
KEYS = {
    "cameras": Tenant(  # the key is "a"
        key_sha256="ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
        concurrency=1,
    ),
}
HELLO: Json = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("llm") / "tiny")


class Watching(CloudMetrics):
    """Remembers how requests ended."""

    def __init__(self, measured: PrometheusMetrics) -> None:
        super().__init__(measured)
        self.ends: list[Outcome] = []

    def acted(self, action: Any) -> None:
        super().acted(action)
        if isinstance(action, Finish):
            self.ends.append(action.outcome)


class Served:
    def __init__(
        self,
        tiny: Checkpoint,
        *,
        loaded: bool = True,
        keys: dict[str, Tenant] | None = None,
        blocks: int = 64,
        max_waiting: int = 64,
        ttft_s: float = 1e6,
    ) -> None:
        measured = PrometheusMetrics()
        self.metrics = Watching(measured)
        engine = LlmEngine(tiny, options=LlmOptions(max_batch=4, block_tokens=8, blocks=blocks))
        self.runtime = InProcessRuntime(
            engine, options=SchedulerOptions(max_waiting=max_waiting), watcher=self.metrics
        )
        deployment = Deployment(expected_s=2.5)
        if loaded:
            served = ServedText(
                names=engine.models, vocabulary=tiny.tokeniser, context=SHAPE.context
            )
            limits = TextLimits(ttft_s=ttft_s, tbt_s=1e6, longest=20)
            deployment.ready(None, TextService(served, self.runtime, limits))
        self.app = Gateway(
            deployment,
            version="1",
            tenants=Tenants(keys, concurrency=16),
            limits=Limits(body_bytes=20_000, body_s=5.0, concurrency=16),
            metrics=self.metrics,
            text=measured.text,
        ).app()

    async def get(self, path: str) -> Reply:
        return await call(self.app, "GET", path)

    async def post(self, path: str, content: object, **headers: str) -> Reply:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await call(self.app, "POST", f"/v1/{path}", headers=headers, body=body)

    async def chat(self, **more: Any) -> Reply:
        return await self.post("chat/completions", {"model": "tiny", **HELLO, **more})

    async def complete(self, **more: Any) -> Reply:
        content = {"model": "tiny", "prompt": "Once", "max_tokens": 6, "temperature": 0, **more}
        return await self.post("completions", content)


def run(tiny: Checkpoint, work: Callable[[Served], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        served = Served(tiny, **options)
        try:
            await asyncio.wait_for(work(served), 60)
        finally:
            await served.runtime.close(10.0)

    asyncio.run(whole())


def events(reply: Reply) -> list[Json]:
    """Of a stream that ended as it should."""
    assert reply.headers["content-type"].startswith("text/event-stream")
    blocks = reply.body.decode().split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2]]


def error(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["error"]["code"]


def test_models(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        listed = (await served.get("/v1/models")).json
        assert [model["id"] for model in listed["data"]] == ["tiny"]
        assert (await served.get("/v1/models/tiny")).json["object"] == "model"
        assert error(await served.get("/v1/models/other")) == (404, "no-such-model")
        no_such_adapter = await served.chat(model="tiny:absent")
        assert error(no_such_adapter) == (404, "no-such-model")

    run(tiny, work)


def test_a_chat_is_the_continuation_of_its_template(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        chat = (await served.chat(temperature=0)).json
        prompt = tiny.tokeniser.conversation(HELLO["messages"])
        plain = (await served.complete(prompt=prompt)).json
        tokens = tiny.tokeniser.encode(prompt)
        assert (await served.complete(prompt=tokens)).json["choices"] == plain["choices"]
        assert chat["choices"][0]["message"]["content"] == plain["choices"][0]["text"]
        assert chat["object"] == "chat.completion"
        assert chat["usage"] == plain["usage"]
        assert chat["usage"]["prompt_tokens"] == len(tokens)
        assert chat["usage"]["completion_tokens"] == 6
        assert chat["choices"][0]["finish_reason"] == "length"

    run(tiny, work)


def test_a_stream_says_the_same(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        whole = (await served.chat(seed=3, logprobs=True, top_logprobs=2)).json["choices"][0]
        streamed = events(
            await served.chat(
                seed=3,
                logprobs=True,
                top_logprobs=2,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        assert len({event["id"] for event in streamed}) == 1
        *chunks, last, usage = streamed
        assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
        deltas = [chunk["choices"][0] for chunk in chunks]
        assert "".join(one["delta"]["content"] for one in deltas) == whole["message"]["content"]
        told = [
            entry for one in deltas for entry in (one["logprobs"] or {"content": []})["content"]
        ]
        assert told == whole["logprobs"]["content"]
        assert len(told) == 6
        assert last["choices"][0]["finish_reason"] == "length"
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] == 6
        plain = (await served.complete(seed=3, temperature=1, logprobs=1)).json["choices"][0]
        assert len(plain["logprobs"]["token_logprobs"]) == 6
        assert plain["logprobs"]["text_offset"][0] == 0
        again = events(await served.complete(seed=3, temperature=1, stream=True))
        assert "".join(event["choices"][0]["text"] for event in again) == plain["text"]

    run(tiny, work)


def test_a_stop_string_ends_it_at_once(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        text = (await served.complete(max_tokens=20)).json["choices"][0]["text"]
        stop = text[4:6]
        cut = (await served.complete(max_tokens=20, stop=[stop, "never"])).json
        assert cut["choices"][0]["text"] == text[: text.index(stop)]
        assert cut["choices"][0]["finish_reason"] == "stop"
        assert cut["usage"]["completion_tokens"] < 20
        assert served.metrics.ends == [Outcome.DONE, Outcome.EXITED]

    run(tiny, work)


def test_embeddings_are_unit_vectors_in_either_format(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        asked = {"model": "tiny", "input": ["one", "two", "one"]}
        plain = (await served.post("embeddings", asked)).json
        packed = (await served.post("embeddings", {**asked, "encoding_format": "base64"})).json
        vectors = np.array([one["embedding"] for one in plain["data"]])
        assert vectors.shape == (3, SHAPE.width)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-5)
        assert abs(vectors[0] @ vectors[1]) < 0.999
        raw = base64.b64decode(packed["data"][1]["embedding"])
        np.testing.assert_allclose(np.frombuffer(raw, "<f4"), vectors[1], atol=1e-5)
        assert plain["usage"]["prompt_tokens"] == 9
        tokens = (await served.post("embeddings", {"model": "tiny", "input": [1, 2, 3]})).json
        assert len(tokens["data"]) == 1

    run(tiny, work)


def test_parts_are_one_text(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
        same = await served.chat(messages=[{"role": "user", "content": parts}], temperature=0)
        plain = await served.chat(temperature=0)
        assert same.json["choices"] == plain.json["choices"]

    run(tiny, work)


def test_calls_and_answers_of_tools_become_text() -> None:
    body = {
        "model": "tiny",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "4"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    asked = parse(json.dumps(body).encode(), ChatRequest)
    assert [message.rendered() for message in asked.messages] == [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": '<tool_call>\n{"name":"f"}\n</tool_call>'},
        {"role": "tool", "content": "4"},
    ]
    assert asked.offered == body["tools"]
    unwanted = parse(json.dumps({**body, "tool_choice": "none"}).encode(), ChatRequest)
    assert unwanted.offered == []


def test_calls_that_the_model_writes_are_told_as_calls() -> None:
    answer = ChatAnswer(model="m", created=1, vocabulary=None)  # type: ignore[arg-type]
    call_text = '<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>'
    answer.add(TextPiece(text=f"Well. {call_text}<tool_call>{{oops}}</tool_call>"))
    end = TextEnd(reason="stop", prompt_tokens=1, completion_tokens=2)
    (choice,) = answer.whole(end, tools=True)["choices"]
    (made,) = choice["message"]["tool_calls"]
    assert made["function"] == {"name": "f", "arguments": '{"x": 1}'}
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "Well.")
    (plain,) = answer.whole(end, tools=False)["choices"]
    assert plain["message"]["content"] == answer.text


@pytest.mark.parametrize(
    ("path", "change", "code"),
    [
        ("chat/completions", {"messages": []}, "bad-request"),
        ("chat/completions", {"messages": "hi"}, "bad-request"),
        ("chat/completions", {"temperature": 3}, "bad-request"),
        ("chat/completions", {"top_p": 0}, "bad-request"),
        ("chat/completions", {"n": 2}, "bad-request"),
        ("chat/completions", {"stop": ["a"] * 5}, "bad-request"),
        ("chat/completions", {"stop": ""}, "bad-request"),
        ("chat/completions", {"top_logprobs": 2}, "bad-request"),
        ("chat/completions", {"frequency_penalty": 1}, "bad-request"),
        ("chat/completions", {"response_format": {"type": "json_object"}}, "bad-request"),
        ("chat/completions", {"tool_choice": "required"}, "bad-request"),
        ("chat/completions", {"logit_bias": {"x": 1}}, "bad-request"),
        ("chat/completions", {"seed": 1 << 70}, "bad-request"),
        ("chat/completions", {"max_tokens": 0}, "bad-request"),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "bad-request",
        ),
        ("completions", {"prompt": ""}, "bad-request"),
        ("completions", {"prompt": ["a", "b"]}, "bad-request"),
        ("completions", {"prompt": [1, "b"]}, "bad-request"),
        ("completions", {"prompt": [-1]}, "bad-request"),
        ("completions", {"prompt": [4000]}, "bad-request"),
        ("completions", {"prompt": "x" * 128}, "context-length"),
        ("completions", {"echo": True}, "bad-request"),
        ("embeddings", {"input": []}, "bad-request"),
        ("embeddings", {"input": ["a"] * 65}, "bad-request"),
        ("embeddings", {"input": "a", "encoding_format": "hex"}, "bad-request"),
    ],
)
def test_what_is_not_a_request_is_refused(
    tiny: Checkpoint, path: str, change: Json, code: str
) -> None:
    async def work(served: Served) -> None:
        base = HELLO if path.startswith("chat") else {"prompt": "a", "input": "a"}
        assert error(await served.post(path, {"model": "tiny", **base, **change})) == (400, code)
        assert (await served.complete()).status == 200

    run(tiny, work)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 5000, b'{"model": 3}'])
def test_bodies_that_are_no_json_are_refused(tiny: Checkpoint, body: bytes) -> None:
    async def work(served: Served) -> None:
        for path in ("chat/completions", "completions", "embeddings"):
            assert error(await served.post(path, body)) == (400, "bad-request")

    run(tiny, work)


def test_refusals_say_when_to_come_again(tiny: Checkpoint) -> None:
    async def loading(served: Served) -> None:
        reply = await served.chat()
        assert error(reply) == (503, "cold-start")
        assert reply.headers["retry-after"] == "3"

    run(tiny, loading, loaded=False)

    async def full(served: Served) -> None:
        first = asyncio.ensure_future(served.complete(max_tokens=60))
        await asyncio.sleep(0)
        while not served.runtime._scheduler.jobs:
            await asyncio.sleep(0.001)
        reply = await served.complete()
        assert error(reply) == (429, "queue-full")
        assert int(reply.headers["retry-after-ms"]) > 0
        assert (await first).status == 200

    run(tiny, full, max_waiting=1)


def test_a_text_that_never_fits_the_cache_is_refused(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        assert error(await served.complete(max_tokens=100)) == (413, "too-large")
        assert (await served.complete(max_tokens=10)).status == 200
        short = await served.post("completions", {"model": "tiny", "prompt": "Once"})
        assert short.status == 200

    run(tiny, work, blocks=3)


def test_keys_and_quotas(tiny: Checkpoint) -> None:
    async def work(served: Served) -> None:
        asked = {"model": "tiny", **HELLO, "max_tokens": 60, "stream": True}
        nobody = await served.post("chat/completions", asked)
        assert error(nobody) == (401, "unknown-key")
        assert error(await served.get("/v1/models")) == (401, "unknown-key")
        both = await asyncio.gather(
            *(served.post("chat/completions", asked, authorization="Bearer a") for _ in range(2))
        )
        assert sorted(reply.status for reply in both) == [200, 429]
        refused = next(reply for reply in both if reply.status == 429)
        assert error(refused) == (429, "concurrency")
        # The stream that ended has let go of its place.
        again = await served.post("chat/completions", asked, authorization="Bearer a")
        assert again.status == 200

    run(tiny, work, keys=KEYS)


@pytest.mark.parametrize("stream", [True, False])
def test_who_leaves_is_not_computed_for(tiny: Checkpoint, stream: bool) -> None:
    async def work(served: Served) -> None:
        leaves = asyncio.Event()
        body = {"model": "tiny", "prompt": "Once", "max_tokens": 120, "stream": stream}
        asking = asyncio.ensure_future(
            call(
                served.app,
                "POST",
                "/v1/completions",
                body=json.dumps({**body, "logit_bias": {"257": -1e9, "258": -1e9}}).encode(),
                leaves=leaves,
            )
        )
        while not served.runtime._scheduler.jobs:
            await asyncio.sleep(0.001)
        leaves.set()
        await asking
        assert served.metrics.ends == [Outcome.CANCELLED]
        assert (await served.complete()).status == 200

    run(tiny, work)


async def _endless(closed: list[str]) -> Any:
    try:
        while True:
            yield b"data: x\n\n"
    finally:
        closed.append("events")


def test_a_client_that_reads_nothing_is_given_up() -> None:

    closed: list[str] = []

    async def whole() -> None:
        held = ExitStack()
        held.callback(closed.append, "held")
        never = asyncio.Event()

        async def receive() -> Any:
            await never.wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await never.wait()

        stream = EventStream(_endless(closed), held=held, broken=lambda _: b"", write_s=0.01)
        await stream({"type": "http"}, receive, send)

    asyncio.run(whole())
    assert closed == ["events", "held"]


def test_a_stream_that_breaks_says_so() -> None:

    sent: list[Any] = []

    async def breaking() -> Any:
        yield b"one"
        raise FailureError(Failure(status=500, code="failed", message="the engine failed"))

    async def whole() -> None:
        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        stream = EventStream(
            breaking(), held=ExitStack(), broken=lambda e: e.message.encode(), write_s=1.0
        )
        await stream({"type": "http"}, receive, send)

    asyncio.run(whole())
    assert [message.get("body") for message in sent[1:]] == [b"one", b"the engine failed", b""]
