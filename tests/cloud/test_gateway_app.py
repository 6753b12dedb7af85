"""The gateway in memory: real specimen, real scheduler and engine, no socket."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asgi import Reply, call
from headtail_cloud.core.actions import Action
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.engines.served_tail import ServedTail
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.gateway.app import Gateway
from headtail_cloud.gateway.deployment import Deployment
from headtail_cloud.gateway.limits import Limits
from headtail_cloud.gateway.service import TailService
from headtail_cloud.metrics import CloudMetrics
from headtail_cloud.open_inference.message import HEADER_LENGTH, encode_request
from headtail_cloud.runtime.in_process import InProcessRuntime
from headtail_cloud.tenants import Tenant, Tenants
from headtail_fabric.codec.base import Array
from headtail_fabric.metrics import PrometheusMetrics

Send = Callable[..., Awaitable[Reply]]
KEYS = {
    "cameras": Tenant(  # the key is "a"
        key_sha256="ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    ),
}


class Served:
    """A gateway over some tails."""

    def __init__(
        self,
        tails: Mapping[str, ServedTail],
        *,
        loaded: bool = True,
        keys: dict[str, Tenant] | None = None,
        options: SchedulerOptions | None = None,
        concurrency: int = 16,
    ) -> None:
        measured = PrometheusMetrics()
        metrics = CloudMetrics(measured)
        self.runtime = InProcessRuntime(
            TailEngine(tails.values(), max_batch=4), options=options, watcher=metrics
        )
        self.deployment = Deployment(expected_s=2.5)
        self.service = TailService(
            tails.values(), self.runtime, deadline_s=30.0, longest_deadline_s=60.0
        )
        if loaded:
            self.deployment.ready(self.service)
        self.app = Gateway(
            self.deployment,
            version="1.2.3",
            tenants=Tenants(keys, concurrency=concurrency),
            limits=Limits(body_bytes=64_000, body_s=0.05, concurrency=concurrency),
            metrics=metrics,
            text=measured.text,
        ).app()

    async def get(self, path: str, **headers: str) -> Reply:
        return await call(self.app, "GET", path, headers=headers)

    async def infer(self, name: str, tensor: Array, **more: Any) -> Reply:
        body, length = encode_request("early", tensor, **more)
        headers = {} if length is None else {HEADER_LENGTH: str(length)}
        path = f"/v2/models/{name}/infer"
        return await call(self.app, "POST", path, headers=headers, body=body)


def run(work: Callable[[Served], Awaitable[None]], *args: Any, **options: Any) -> None:
    async def whole() -> None:
        served = Served(*args, **options)
        try:
            await work(served)
        finally:
            await served.runtime.close(10.0)

    asyncio.run(whole())


def tensor_for(tail: ServedTail) -> Array:
    return np.random.default_rng(5).random((1, *tail.input.shape), dtype=np.float32)


@pytest.fixture
def early(tails: dict[str, ServedTail]) -> ServedTail:
    return tails["specimen:early"]


@pytest.mark.parametrize("binary", [True, False])
def test_infers(tails: dict[str, ServedTail], early: ServedTail, binary: bool) -> None:
    tensor = tensor_for(early)
    (expected,) = early.run([tensor], [()])

    async def work(served: Served) -> None:
        body, length = encode_request(early.input.name, tensor, binary=binary)
        headers = {HEADER_LENGTH: str(length)} if binary else {}
        reply = await call(
            served.app, "POST", "/v2/models/specimen:early/infer", headers=headers, body=body
        )
        assert reply.status == 200
        size = int(reply.headers.get(HEADER_LENGTH.lower(), len(reply.body)))
        answer = json.loads(reply.body[:size])
        assert (answer["model_name"], answer["model_version"]) == ("specimen:early", "1.0")
        (output,) = answer["outputs"]
        got = np.frombuffer(reply.body[size:], "<f4") if binary else np.array(output["data"])
        np.testing.assert_allclose(got, expected["logits"][0], atol=1e-5)
        assert output["shape"] == [1, 3]

    run(work, tails)


def test_tells_what_is_served(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        assert (await served.get("/v2")).json["extensions"] == ["binary_tensor_data"]
        models = (await served.get("/v2/models")).json["models"]
        assert [model["name"] for model in models] == list(tails)
        model = (await served.get("/v2/models/specimen:early/versions/1.0")).json
        assert model["versions"] == ["1.0"]
        assert model["inputs"] == [
            {
                "name": early.input.name,
                "datatype": "FP32",
                "shape": [1, *early.input.shape],
            }
        ]
        assert model["outputs"][0] == {"name": "logits", "datatype": "FP32", "shape": [1, 3]}
        assert (await served.get("/v2/models/specimen:early/ready")).status == 200

    run(work, tails)


def test_health_while_loading_and_after(tails: dict[str, ServedTail]) -> None:
    async def work(served: Served) -> None:
        assert (await served.get("/healthz")).status == 200
        waiting = await served.get("/readyz")
        assert (waiting.status, waiting.code) == (503, "cold-start")
        early = await served.get("/v2/models/specimen")
        assert (early.status, early.headers["retry-after"]) == (503, "3")
        assert early.headers["retry-after-ms"] == "2500"
        served.deployment.ready(served.service)
        assert (await served.get("/v2/health/ready")).status == 200
        assert repr(served.deployment) == "<Deployment ready>"


def test_a_server_that_is_stopping(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        await served.runtime.close(10.0)
        body, _ = encode_request(early.input.name, tensor_for(early), binary=False)
        reply = await call(served.app, "POST", "/v2/models/specimen:early/infer", body=body)
        assert (reply.status, reply.code) == (503, "draining")

    run(work, tails)


def test_what_is_not_there(tails: dict[str, ServedTail]) -> None:
    async def work(served: Served) -> None:
        for path in ("/v2/models/nothing", "/v2/models/specimen/versions/9"):
            reply = await served.get(path)
            assert (reply.status, reply.code) == (404, "no-such-model")
        assert (await served.get("/else")).code == "not-found"
        assert (await served.get("/v2/models/specimen/infer")).status == 405

    run(work, tails)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"inputs": []}', b'{"inputs": [{"name": "x"}]}', b"\xff\xfe"]
)
def test_a_bad_request(tails: dict[str, ServedTail], body: bytes) -> None:
    async def work(served: Served) -> None:
        reply = await call(served.app, "POST", "/v2/models/specimen:early/infer", body=body)
        assert (reply.status, reply.code) == (400, "bad-request")

    run(work, tails)


def test_a_tensor_of_another_model(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        body, _ = encode_request("x", tensor_for(early), binary=False)
        reply = await call(served.app, "POST", "/v2/models/specimen:early/infer", body=body)
        assert (reply.status, reply.code) == (400, "bad-request")
        assert "input 'x'" in reply.json["error"]

    run(work, tails)


def test_keys(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        assert (await served.get("/healthz")).status == 200
        for headers in ({}, {"Authorization": "Bearer b"}):
            reply = await call(served.app, "GET", "/v2/models", headers=headers)
            assert (reply.status, reply.code) == (401, "unknown-key")
            assert reply.headers["www-authenticate"] == "Bearer"
        body, _ = encode_request(early.input.name, tensor_for(early), binary=False)
        headers = {"Authorization": "Bearer a"}
        reply = await call(
            served.app, "POST", "/v2/models/specimen:early/infer", headers=headers, body=body
        )
        assert reply.status == 200

    run(work, tails, keys=KEYS)


def test_a_deadline_that_can_not_be_met(tails: dict[str, ServedTail], early: ServedTail) -> None:
    slow = {"specimen:early": replace(early, item_s=10.0)}

    async def work(served: Served) -> None:
        tensor = tensor_for(early)
        served.service.model("specimen:early", None)
        body, _ = encode_request(early.input.name, tensor, binary=False, timeout_s=1.0)
        path = "/v2/models/specimen:early/infer"
        first = await call(served.app, "POST", path, body=body)
        assert first.status == 200  # taken to find out whether the estimate is right

    run(work, slow)


def test_too_many_at_a_time(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        leaves = asyncio.Event()
        path = "/v2/models/specimen:early/infer"
        slow = asyncio.ensure_future(
            call(served.app, "POST", path, body=[b"{"], stalls=True, leaves=leaves)
        )
        await asyncio.sleep(0)
        reply = await call(served.app, "POST", path, body=b"{}")
        assert (reply.status, reply.code) == (503, "overloaded")
        assert reply.headers["retry-after"] == "1"
        leaves.set()
        assert (await slow).status == 499

    run(work, tails, concurrency=1)


def test_the_queue_is_full(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        body, _ = encode_request(early.input.name, tensor_for(early), binary=False)
        path = "/v2/models/specimen:early/infer"
        replies = await asyncio.gather(
            *(call(served.app, "POST", path, body=body) for _ in range(6))
        )
        statuses = [reply.status for reply in replies]
        assert set(statuses) == {200, 429}
        refused = replies[statuses.index(429)]
        assert refused.code == "queue-full"
        assert int(refused.headers["retry-after"]) >= 1

    run(work, tails, options=SchedulerOptions(max_waiting=2))


def test_a_body_that_is_too_large_or_too_slow(tails: dict[str, ServedTail]) -> None:
    async def work(served: Served) -> None:
        path = "/v2/models/specimen:early/infer"
        reply = await call(
            served.app, "POST", path, headers={"Content-Length": "99999"}, body=b"{}"
        )
        assert (reply.status, reply.code) == (413, "too-large")
        reply = await call(served.app, "POST", path, body=[b"x" * 40_000, b"x" * 40_000])
        assert (reply.status, reply.code) == (413, "too-large")
        reply = await call(served.app, "POST", path, body=[b"{"], stalls=True)
        assert (reply.status, reply.code) == (408, "slow-request")

    run(work, tails)


def test_measurements(tails: dict[str, ServedTail], early: ServedTail) -> None:
    async def work(served: Served) -> None:
        body, _ = encode_request(early.input.name, tensor_for(early), binary=False)
        await call(served.app, "POST", "/v2/models/specimen:early/infer", body=body)
        await served.get("/v2/models/nothing")
        text = (await served.get("/metrics")).body.decode()
        assert 'headtail_cloud_requests_total{outcome="done"} 1.0' in text
        assert 'headtail_cloud_http_failures_total{code="no-such-model"} 1.0' in text
        assert "headtail_cloud_queue_seconds_count 1.0" in text
        assert 'headtail_cloud_goodput_total{kind="tail"} 1.0' in text

    run(work, tails)


def test_a_scheduler_that_broke(
    tails: dict[str, ServedTail], early: ServedTail, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[Action]:
        raise RuntimeError("a bug")

    async def work(served: Served) -> None:
        monkeypatch.setattr(Scheduler, "on_event", broken)
        body, _ = encode_request(early.input.name, tensor_for(early), binary=False)
        reply = await call(served.app, "POST", "/v2/models/specimen:early/infer", body=body)
        assert (reply.status, reply.code) == (500, "failed")
        assert (await served.get("/readyz")).status == 503
        assert (await served.get("/healthz")).status == 200

    run(work, tails)


def test_a_client_that_leaves_cancels_its_request(
    tails: dict[str, ServedTail], early: ServedTail
) -> None:
    async def work(served: Served) -> None:
        body, _ = encode_request(early.input.name, tensor_for(early), binary=False)
        leaves = asyncio.Event()
        leaves.set()
        path = "/v2/models/specimen:early/infer"
        reply = await call(served.app, "POST", path, body=body, leaves=leaves)
        assert reply.status in (200, 499)  # it may have been answered before it left
        again = await call(served.app, "POST", path, body=body)
        assert again.status == 200

    run(work, tails)
