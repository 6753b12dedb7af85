"""Other servers of the OpenAI API (vLLM, SGLang, llama.cpp, another one of these) as instances.

Such a server batches by itself, so it is asked for whole texts: what a caller sent is passed on,
and what it says is passed back as it comes. What is managed here is which of them is asked: those
that are healthy, the soonest first by the same formula as any instance, the next one when one fails
before its first byte.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx2
import msgspec

from headtail_cloud.dispatch.placement import Candidate, by_total
from headtail_fabric.clock import Clock
from headtail_fabric.errors import PeerError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

CHECK_EVERY_S: Final = 5.0
_CHECK_LIMIT_S: Final = 5.0
_CONNECT_S: Final = 5.0
_GIVEN_UP_AFTER: Final = 2
"""Failures, one after the other, before a server is asked nothing until it passes a check."""
_NEWEST_WEIGHT: Final = 0.2
_FIRST_GUESS_S: Final = 1.0
_MOST_MODELS: Final = 1000
_ELSEWHERE: Final = frozenset({429, 500, 502, 503, 504})
"""Answers after which another server may do better."""
_PASSED_ON: Final = ("content-type", "retry-after")


class RemoteError(PeerError):
    """No server of that model can be reached. It is asked again as soon as it passes a health
    check; see the log for why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """`url` ends in /v1, or whatever stands before /models. `limit_s`: of silence in an answer;
    `concurrency`: requests that it works on at once, as far as is known."""

    name: str
    url: str
    key: str | None = None
    concurrency: int = 16
    limit_s: float = 120.0


class RemoteAnswer:
    """An answer from its first byte on. It must be closed, read or not."""

    def __init__(self, answer: httpx2.Response, ended: Callable[[bool], None]) -> None:
        """`ended` is told once, whether it was read to its end."""
        self.status = answer.status_code
        self.headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        self._answer = answer
        self._ended: Callable[[bool], None] | None = ended

    def __repr__(self) -> str:
        return f"<RemoteAnswer {self.status}>"

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """As they come. Raises httpx2.HTTPError when the server breaks off."""
        async for chunk in self._answer.aiter_bytes():
            yield chunk
        self._end(whole=True)

    async def close(self) -> None:
        """Gives its connection back. Twice is once."""
        self._end(whole=False)
        await self._answer.aclose()

    def _end(self, *, whole: bool) -> None:
        if self._ended is not None:
            self._ended(whole)
            self._ended = None


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteServer:
    """One of them, with what is known of it."""

    options: RemoteOptions
    client: httpx2.AsyncClient
    models: frozenset[str] = frozenset()
    healthy: bool = False
    failures: int = 0
    in_progress: int = 0
    takes_s: float = _FIRST_GUESS_S
    rtt_s: float = 0.0
    why: str = field(default="not checked yet")

    def __repr__(self) -> str:
        state = "healthy" if self.healthy else f"down ({self.why})"
        return f"<RemoteServer {self.options.name} {state}, {self.in_progress} in progress>"

    @property
    def candidate(self) -> Candidate:
        """How soon it would have done a request."""
        waiting = self.in_progress / self.options.concurrency
        return Candidate(
            instance=self.options.name,
            transfer_s=self.rtt_s,
            queue_s=waiting * self.takes_s,
            run_s=self.takes_s,
        )

    async def check(self, clock: Clock) -> None:
        """Ask what it serves: that is its health."""
        started_at = clock.now()
        try:
            answer = await self.client.get(self._at("models"), timeout=_CHECK_LIMIT_S)
            answer.raise_for_status()
            listed = msgspec.json.decode(answer.content, type=_Models).data
        except (httpx2.HTTPError, msgspec.MsgspecError) as error:
            self._down(f"{type(error).__name__}: {error}")
            return
        self.rtt_s = clock.now() - started_at
        self.models = frozenset(model.id for model in listed[:_MOST_MODELS])
        self.failures = 0
        if not self.healthy:
            self.healthy = True
            log.info("remote server healthy", extra=fields(name=self.options.name))

    async def ask(self, path: str, body: bytes, clock: Clock) -> RemoteAnswer:
        """Raises httpx2.HTTPError when there is no answer."""
        request = self.client.build_request(
            "POST",
            self._at(path),
            content=body,
            headers={"content-type": "application/json"},
            timeout=httpx2.Timeout(self.options.limit_s, connect=_CONNECT_S),
        )
        started_at = clock.now()
        self.in_progress += 1
        try:
            answer = await self.client.send(request, stream=True)
        except BaseException:
            self.in_progress -= 1
            raise

        def ended(whole: bool) -> None:
            self.in_progress -= 1
            if whole:
                took_s = clock.now() - started_at
                self.takes_s += _NEWEST_WEIGHT * (took_s - self.takes_s)
                self.failures = 0

        return RemoteAnswer(answer, ended)

    def failed(self, why: str) -> None:
        """It did not answer, or that it can't."""
        self.failures += 1
        if self.failures >= _GIVEN_UP_AFTER:
            self._down(why)

    def _at(self, path: str) -> str:
        return f"{self.options.url.rstrip('/')}/{path}"

    def _down(self, why: str) -> None:
        if self.healthy or not self.why:
            log.warning("remote server down", extra=fields(name=self.options.name, reason=why))
        self.healthy, self.why = False, why


class RemoteServers:
    """All that an operator has named. Used in one asyncio loop."""

    def __init__(
        self,
        options: Iterable[RemoteOptions],
        *,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport`: in place of the network, for tests."""
        self._clock = clock
        self._servers = [
            RemoteServer(
                options=one,
                client=httpx2.AsyncClient(
                    transport=transport,
                    headers={"authorization": f"Bearer {one.key}"} if one.key else {},
                    follow_redirects=False,
                ),
            )
            for one in options
        ]
        self._watching: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<RemoteServers {self._servers!r}>"

    @property
    def healthy(self) -> bool:
        """Whether any of them is."""
        return any(server.healthy for server in self._servers)

    @property
    def models(self) -> tuple[str, ...]:
        """What those that are healthy serve."""
        served = (server.models for server in self._servers if server.healthy)
        return tuple(sorted(frozenset().union(*served)))

    def know(self, model: str) -> bool:
        """Whether any of them serves that, or did when it was last healthy."""
        return any(model in server.models for server in self._servers)

    async def start(self) -> None:
        """Check all of them, and go on doing so."""
        await self.check()
        self._watching = asyncio.create_task(self._watch())

    async def check(self) -> None:
        """Once."""
        await asyncio.gather(*(server.check(self._clock) for server in self._servers))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        for server in self._servers:
            await server.client.aclose()

    async def ask(self, model: str, path: str, body: bytes) -> RemoteAnswer:
        """The answer of the soonest that has one. Raises RemoteError."""
        last: RemoteAnswer | None = None
        for server in self._soonest(model):
            try:
                answer = await server.ask(path, body, self._clock)
            except httpx2.HTTPError as error:
                server.failed(f"{type(error).__name__}: {error}")
                continue
            if answer.status not in _ELSEWHERE:
                if last is not None:
                    await last.close()
                return answer
            if answer.status != 429:
                server.failed(f"it answered {answer.status}")
            if last is not None:
                await last.close()
            last = answer
        if last is None:
            raise RemoteError(f"no server of {model[:80]!r} answers")
        return last

    def _soonest(self, model: str) -> Sequence[RemoteServer]:
        able = {
            server.options.name: server
            for server in self._servers
            if server.healthy and model in server.models
        }
        order = by_total(server.candidate for server in able.values())
        return [able[candidate.instance] for candidate in order]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            await self.check()
