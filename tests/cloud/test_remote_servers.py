"""Remote servers: which is asked, what happens when one fails, and that health comes back."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from headtail_cloud.engines.remote import RemoteError, RemoteOptions, RemoteServers
from headtail_fabric.clock import FakeClock

Handler = Callable[[httpx2.Request], httpx2.Response]
MODELS = {"data": [{"id": "small"}, {"id": "large"}]}


class World:
    """Two servers, `a` and `b`, that say what the test lets them."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.asked: list[tuple[str, str]] = []
        self.says: dict[str, Handler] = {}
        self.models: dict[str, object] = {"a": MODELS, "b": MODELS}
        self.servers = RemoteServers(
            [
                RemoteOptions(name=name, url=f"http://{name}/v1/", key=f"key-{name}")
                for name in "ab"
            ],
            clock=self.clock,
            transport=httpx2.MockTransport(self._answer),
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        assert request.headers["authorization"] == f"Bearer key-{host}"
        if request.url.path == "/v1/models":
            listed = self.models[host]
            if listed is None:
                raise httpx2.ConnectError("nobody there")
            return httpx2.Response(200, json=listed)
        self.asked.append((host, request.url.path))
        self.clock.advance(1.0)
        if host in self.says:
            return self.says[host](request)
        return httpx2.Response(200, content=host.encode(), headers={"x-secret": "1"})

    async def said(self, model: str = "small") -> tuple[int, bytes]:
        answer = await self.servers.ask(model, "chat/completions", b"{}")
        assert "x-secret" not in answer.headers
        try:
            return answer.status, b"".join([chunk async for chunk in answer.chunks()])
        finally:
            await answer.close()


def run(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        await world.servers.check()
        try:
            await work(world)
        finally:
            await world.servers.close()

    asyncio.run(main())


def refuse(status: int) -> Handler:
    return lambda request: httpx2.Response(status, content=b"no")


def unreachable(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("gone")


def test_models_of_healthy_servers_are_offered() -> None:
    async def work(world: World) -> None:
        assert list(world.servers.models) == ["large", "small"]
        world.models["a"] = None
        world.models["b"] = {"data": [{"id": "small"}]}
        await world.servers.check()
        assert list(world.servers.models) == ["small"]
        assert world.servers.know("large"), "it may come back"
        world.models["b"] = "nonsense"
        await world.servers.check()
        assert not world.servers.healthy

    run(work)


def test_what_is_asked_is_passed_on_and_back() -> None:
    async def work(world: World) -> None:
        assert await world.said() == (200, b"a")
        assert world.asked == [("a", "/v1/chat/completions")]

    run(work)


def test_the_one_with_less_before_it_is_asked() -> None:
    async def work(world: World) -> None:
        held = await world.servers.ask("small", "completions", b"{}")
        assert await world.said() == (200, b"b")
        await held.close()
        await held.close()
        assert [one.in_progress for one in world.servers._servers] == [0, 0]

    run(work)


@pytest.mark.parametrize("failing", [unreachable, refuse(503), refuse(500), refuse(429)])
def test_another_is_asked_when_one_fails(failing: Handler) -> None:
    async def work(world: World) -> None:
        world.says["a"] = failing
        assert await world.said() == (200, b"b")

    run(work)


def test_a_callers_own_mistake_is_its_answer() -> None:
    async def work(world: World) -> None:
        world.says["a"] = refuse(400)
        assert await world.said() == (400, b"no")
        assert len(world.asked) == 1

    run(work)


def test_when_all_refuse_the_last_refusal_is_passed_back() -> None:
    async def work(world: World) -> None:
        world.says = {"a": refuse(503), "b": refuse(429)}
        assert (await world.said())[0] == 429

    run(work)


def test_one_that_fails_again_and_again_is_left_until_it_passes_a_check() -> None:
    async def work(world: World) -> None:
        world.says["a"] = unreachable
        for _ in range(4):
            assert await world.said() == (200, b"b")
        assert [host for host, _ in world.asked].count("a") == 2
        world.says.clear()
        await world.servers.check()
        held = await world.servers.ask("small", "completions", b"{}")
        await world.said()
        await held.close()
        hosts = [host for host, _ in world.asked[-2:]]
        assert sorted(hosts) == ["a", "b"]

    run(work)


def test_none_that_answers_and_none_that_knows_the_model() -> None:
    async def work(world: World) -> None:
        world.says = {"a": unreachable, "b": unreachable}
        for model in ("small", "other"):
            with pytest.raises(RemoteError, match="answers"):
                await world.said(model)

    run(work)
