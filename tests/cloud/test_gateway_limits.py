import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from headtail_cloud.gateway.failure import FailureError
from headtail_cloud.gateway.limits import Turnstile, while_connected
from headtail_cloud.tenants import Caller


def caller(tenant: str, concurrency: int = 2) -> Caller:
    return Caller(tenant=tenant, priority=0, concurrency=concurrency)


def test_each_tenant_has_its_own_limit() -> None:
    gate = Turnstile(10)
    with gate.enter(caller("a")), gate.enter(caller("a")):
        with pytest.raises(FailureError) as caught, gate.enter(caller("a")):
            pass
        assert (caught.value.failure.status, caught.value.failure.code) == (429, "concurrency")
        with gate.enter(caller("b")):
            assert repr(gate) == "<Turnstile 3/10>"
    assert repr(gate) == "<Turnstile 0/10>"


def test_all_together_have_one() -> None:
    gate = Turnstile(1)
    with gate.enter(caller("a")):
        with pytest.raises(FailureError) as caught, gate.enter(caller("b")):
            pass
        assert caught.value.failure.code == "overloaded"


def test_one_that_failed_leaves_its_place() -> None:
    gate = Turnstile(1)
    with pytest.raises(RuntimeError), gate.enter(caller("a")):
        raise RuntimeError
    with gate.enter(caller("a")):
        pass


def with_client(
    work: Callable[[], Awaitable[str]], *, leaves: bool, cancelled: bool = False
) -> str:
    """What `while_connected` gives of a request whose client stays, or is gone at once."""

    async def receive() -> Message:
        if not leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def whole() -> str:
        request = Request({"type": "http"}, receive)
        task = asyncio.ensure_future(while_connected(request, work))
        await asyncio.sleep(0)
        if cancelled:
            task.cancel()
        return await task

    return asyncio.run(whole())


def test_the_work_of_a_client_that_stays() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert with_client(work, leaves=False) == "done"


def test_a_client_that_leaves_stops_its_work() -> None:
    stopped = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        return "never"

    with pytest.raises(ClientDisconnect):
        with_client(work, leaves=True)
    assert stopped


def test_work_that_ends_as_its_client_leaves() -> None:
    async def work() -> str:
        return "done"

    assert with_client(work, leaves=True) == "done"


def test_a_request_that_is_cancelled_is_no_client_that_left() -> None:
    async def work() -> str:
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(asyncio.CancelledError):
        with_client(work, leaves=False, cancelled=True)
