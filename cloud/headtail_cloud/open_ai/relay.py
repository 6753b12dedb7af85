"""Requests for models of remote servers: passed on as they came, answered as they are answered."""

from contextlib import ExitStack
from typing import Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headtail_cloud.engines.remote import RemoteAnswer, RemoteError, RemoteServers
from headtail_cloud.gateway.failure import Failure, FailureError

_RETRY_S: Final = 5.0


class _Named(msgspec.Struct):
    model: str


class RelayedResponse(StreamingResponse):
    """`held` is let go of, and the remote's connection given back, however it ends."""

    def __init__(self, answer: RemoteAnswer, held: ExitStack) -> None:
        super().__init__(answer.chunks(), status_code=answer.status, headers=answer.headers)
        self._answer = answer
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            try:
                await super().__call__(scope, receive, send)
            finally:
                await self._answer.close()


def model_of(body: bytes) -> str:
    """The model that a request names, or nothing where it is none."""
    try:
        return msgspec.json.decode(body, type=_Named).model
    except msgspec.MsgspecError:
        return ""


async def relayed(
    remotes: RemoteServers, path: str, body: bytes, *, held: ExitStack
) -> RelayedResponse:
    """The remote server's answer to a request of at most one of its models. Takes over what is in
    `held`. Raises FailureError when none answers."""
    try:
        answer = await remotes.ask(model_of(body), path, body)
    except RemoteError as error:
        raise FailureError(
            Failure(status=503, code="remote-down", message=error.message, retry_after_s=_RETRY_S)
        ) from None
    return RelayedResponse(answer, held.pop_all())
