"""The OpenAI API over HTTP.

GET  /v1/models, /v1/models/NAME
POST /v1/chat/completions, /v1/completions       whole, or a stream of server-sent events
POST /v1/embeddings
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headtail_cloud.engines.remote import RemoteServers
from headtail_cloud.gateway.deployment import Deployment
from headtail_cloud.gateway.event_stream import EventStream
from headtail_cloud.gateway.failure import Failure, FailureError, no_such_model
from headtail_cloud.gateway.guard import Guard, Handler
from headtail_cloud.gateway.limits import while_connected
from headtail_cloud.open_ai import answer as answers
from headtail_cloud.open_ai.answer import ChatAnswer, CompletionAnswer
from headtail_cloud.open_ai.message import (
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    parse,
)
from headtail_cloud.open_ai.relay import model_of, relayed
from headtail_cloud.open_ai.service import Answering, TextEnd, TextPiece, TextService

_WRITE_S: Final = 30.0
"""How long a client may take to read what was sent, before it is taken to be gone."""


class OpenAiRoutes:
    """To be mounted in the gateway."""

    def __init__(
        self, deployment: Deployment, guard: Guard, clock: Callable[[], float] = time.time
    ) -> None:
        self._deployment = deployment
        self._guard = guard
        self._clock = clock
        self._created = int(clock())

    def routes(self) -> list[Route]:
        def guarded(route: Handler) -> Handler:
            return self._guard.route(route, failed)

        def failed(what: Failure, headers: dict[str, str]) -> Response:
            return JSONResponse(answers.of_failure(what), status_code=what.status, headers=headers)

        return [
            Route("/v1/models", guarded(self._models)),
            Route("/v1/models/{name:path}", guarded(self._model)),
            Route("/v1/chat/completions", guarded(self._chat), methods=["POST"]),
            Route("/v1/completions", guarded(self._complete), methods=["POST"]),
            Route("/v1/embeddings", guarded(self._embed), methods=["POST"]),
        ]

    async def _models(self, request: Request) -> Response:
        self._guard.caller(request)
        return JSONResponse(answers.models(self._names(), self._created))

    async def _model(self, request: Request) -> Response:
        self._guard.caller(request)
        name = request.path_params["name"]
        if name not in self._names():
            raise FailureError(no_such_model(name, None))
        return JSONResponse(answers.model(name, self._created))

    async def _chat(self, request: Request) -> Response:
        with ExitStack() as stack:
            caller = stack.enter_context(self._guard.enter(request))
            body = await self._guard.body(request)
            if (remotes := self._remotes(body)) is not None:
                return await relayed(remotes, "chat/completions", body, held=stack)
            service = self._service()
            asked = parse(body, ChatRequest)
            answering = await service.chat(asked, caller)
            stack.callback(answering.cancel)
            answer = ChatAnswer(
                model=asked.model, created=int(self._clock()), vocabulary=service.vocabulary
            )
            if not asked.stream:
                return await _whole(request, answering, answer, tools=bool(asked.offered))
            return _stream(answering, answer, usage=asked.tells_usage, held=stack.pop_all())

    async def _complete(self, request: Request) -> Response:
        with ExitStack() as stack:
            caller = stack.enter_context(self._guard.enter(request))
            body = await self._guard.body(request)
            if (remotes := self._remotes(body)) is not None:
                return await relayed(remotes, "completions", body, held=stack)
            service = self._service()
            asked = parse(body, CompletionRequest)
            answering = await service.complete(asked, caller)
            stack.callback(answering.cancel)
            answer = CompletionAnswer(
                model=asked.model, created=int(self._clock()), vocabulary=service.vocabulary
            )
            if not asked.stream:
                return await _whole(request, answering, answer, tools=False)
            return _stream(answering, answer, usage=asked.tells_usage, held=stack.pop_all())

    async def _embed(self, request: Request) -> Response:
        with ExitStack() as stack:
            caller = stack.enter_context(self._guard.enter(request))
            body = await self._guard.body(request)
            if (remotes := self._remotes(body)) is not None:
                return await relayed(remotes, "embeddings", body, held=stack)
            service = self._service()
            asked = parse(body, EmbeddingRequest)
            inputs = asked.inputs
            vectors, tokens = await while_connected(
                request, lambda: service.embed(asked.model, inputs, caller)
            )
        packed = asked.encoding_format == "base64"
        return JSONResponse(
            answers.embeddings(vectors, model=asked.model, tokens=tokens, packed=packed)
        )

    def _service(self) -> TextService:
        return self._deployment.texts()

    def _names(self) -> tuple[str, ...]:
        remotes = self._deployment.remotes
        others = remotes.models if remotes is not None else ()
        if others and not self._deployment.has_texts:
            return others
        own = tuple(self._service().models)
        return (*own, *(name for name in others if name not in own))

    def _remotes(self, body: bytes) -> RemoteServers | None:
        """Those to ask, if they serve the model and nobody here does."""
        remotes = self._deployment.remotes
        if remotes is None:
            return None
        model = model_of(body)
        here = self._deployment.has_texts and model in self._service().models
        return remotes if remotes.know(model) and not here else None


async def _whole(
    request: Request, answering: Answering, answer: ChatAnswer | CompletionAnswer, *, tools: bool
) -> Response:
    async def gathered() -> TextEnd:
        async with aclosing(answering.pieces()) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextEnd):
                    return piece
                answer.add(piece)
        raise AssertionError("a text without an end")

    end = await while_connected(request, gathered)
    return JSONResponse(answer.whole(end, tools=tools))


def _stream(
    answering: Answering,
    answer: ChatAnswer | CompletionAnswer,
    *,
    usage: bool,
    held: ExitStack,
) -> Response:
    async def events() -> AsyncGenerator[bytes, None]:
        if (first := answer.begun()) is not None:
            yield answers.event(first)
        async with aclosing(answering.pieces()) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextPiece):
                    if (chunk := answer.chunk(piece)) is not None:
                        yield answers.event(chunk)
                    continue
                yield answers.event(answer.ended(piece))
                if usage:
                    yield answers.event(answer.usage(piece))
        yield answers.DONE

    def broken(error: FailureError) -> bytes:
        return answers.event(answers.of_failure(error.failure))

    return EventStream(events(), held=held, broken=broken, write_s=_WRITE_S)
