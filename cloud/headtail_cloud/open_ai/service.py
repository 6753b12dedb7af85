"""The language model that is served: requests become token ids, and come back as text."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from headtail_cloud.core.actions import Accept, EmitToken, Finish, Outcome, Reject
from headtail_cloud.core.exit_policy import ExitPolicy, NeverExit
from headtail_cloud.core.request import TextRequest
from headtail_cloud.engines.llm.sampling import Chosen, Sampling
from headtail_cloud.engines.llm.served_text import ServedText
from headtail_cloud.engines.llm.vocabulary import (
    BadConversationError,
    Message,
    NoChatError,
    Vocabulary,
)
from headtail_cloud.gateway import failure
from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.open_ai.message import ChatRequest, CompletionRequest, Prompt, refused
from headtail_cloud.open_ai.text_cutter import StopAtStrings, TextCutter
from headtail_cloud.runtime.exchange import Exchange, RuntimeBrokenError
from headtail_cloud.runtime.serving import Runtime
from headtail_cloud.tenants import Caller

_SHORTER: Final = (256, 64)
"""What a text that says no length is cut to when there is no time for all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """`ttft_s` and `tbt_s` are what callers are promised; `longest`: tokens of an answer that asks
    for no length."""

    ttft_s: float
    tbt_s: float
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """What a token added, if anything may be shown yet. `chosen` where probabilities were asked
    for."""

    text: str
    chosen: Chosen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEnd:
    """`reason`: "stop" or "length". Tokens count all that were computed, what was cut off too."""

    reason: str
    prompt_tokens: int
    completion_tokens: int


class Answering:
    """One accepted text on its way. To be cancelled by who won't read it to its end."""

    def __init__(
        self, exchange: Exchange, cutter: TextCutter, vocabulary: Vocabulary, prompt_tokens: int
    ) -> None:
        self._exchange = exchange
        self._cutter = cutter
        self._vocabulary = vocabulary
        self._prompt_tokens = prompt_tokens

    def cancel(self) -> None:
        """Nothing happens when it has ended."""
        self._exchange.cancel()

    async def pieces(self) -> AsyncGenerator[TextPiece | TextEnd, None]:
        """Pieces, then the end. Raises FailureError when it has none."""
        last, count = -1, 0
        async with aclosing(_told(self._exchange)) as told:
            async for what in told:
                match what:
                    case EmitToken(token=token, output=output):
                        last, count = token, count + 1
                        yield self._piece(token, output)
                    case Finish():
                        if failed := failure.of_end(what):
                            raise FailureError(failed)
                        yield TextPiece(text=self._cutter.end())
                        yield self._end(what, last, count)

    def _piece(self, token: int, output: object) -> TextPiece:
        text = self._cutter.feed(token)
        chosen = None
        if isinstance(output, dict) and token not in self._vocabulary.end_tokens:
            chosen = msgspec.convert(output, Chosen)
        return TextPiece(text=text, chosen=chosen)

    def _end(self, finish: Finish, last: int, count: int) -> TextEnd:
        stopped = finish.outcome is Outcome.EXITED or last in self._vocabulary.end_tokens
        return TextEnd(
            reason="stop" if stopped or self._cutter.stopped else "length",
            prompt_tokens=self._prompt_tokens,
            completion_tokens=count,
        )


class TextService:
    """Serves a model, and the same with each of its adapters, by their names."""

    def __init__(self, served: ServedText, runtime: Runtime, limits: TextLimits) -> None:
        self.models = served.names
        self.vocabulary = served.vocabulary
        self._context = served.context
        self._runtime = runtime
        self._limits = limits
        self._numbers = itertools.count()

    @property
    def alive(self) -> bool:
        return self._runtime.alive

    async def chat(self, request: ChatRequest, caller: Caller) -> Answering:
        """Raises FailureError."""
        messages: list[Message] = [message.rendered() for message in request.messages]
        try:
            text = self.vocabulary.conversation(messages, request.offered)
        except (NoChatError, BadConversationError) as error:
            raise FailureError(failure.bad_request(error)) from None
        return await self._begin(text, request, request.limit, request.alternatives, caller)

    async def complete(self, request: CompletionRequest, caller: Caller) -> Answering:
        """Raises FailureError."""
        return await self._begin(request.text, request, request.limit, request.logprobs, caller)

    async def embed(
        self, model: str, texts: Sequence[Prompt], caller: Caller
    ) -> tuple[list[NDArray[np.float32]], int]:
        """The normalised hidden state after each text (width), and their tokens. Raises
        FailureError."""
        prompts = [self._tokens(text) for text in texts]
        exchanges = [
            self._submit(model, prompt, 1, Sampling(embed=True, temperature=0), caller)
            for prompt in prompts
        ]
        try:
            vectors = [await _vector(exchange) for exchange in exchanges]
        finally:
            for exchange in exchanges:
                exchange.cancel()
        return vectors, sum(map(len, prompts))

    async def _begin(
        self,
        text: Prompt,
        request: ChatRequest | CompletionRequest,
        limit: int | None,
        alternatives: int | None,
        caller: Caller,
    ) -> Answering:
        prompt = self._tokens(text)
        room = self._context - len(prompt)
        if room < 1:
            message = f"{len(prompt)} tokens; the model has {self._context} for both"
            raise FailureError(Failure(status=400, code="context-length", message=message))
        sampling = Sampling(
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            seed=secrets.randbits(62) if request.seed is None else request.seed & ((1 << 62) - 1),
            alternatives=alternatives,
            bias=request.bias,
        )
        exchange = self._submit(
            request.model,
            prompt,
            min(limit or self._limits.longest, room),
            sampling,
            caller,
            stops=request.stops,
            shorter=() if limit else _SHORTER,
        )
        try:
            await _accepted(exchange)
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        cutter = TextCutter(self.vocabulary, request.stops)
        return Answering(exchange, cutter, self.vocabulary, len(prompt))

    def _submit(
        self,
        model: str,
        prompt: list[int],
        max_tokens: int,
        sampling: Sampling,
        caller: Caller,
        *,
        stops: tuple[str, ...] = (),
        shorter: tuple[int, ...] = (),
    ) -> Exchange:
        if model not in self.models:
            raise FailureError(failure.no_such_model(model, None))

        def policy() -> ExitPolicy:
            return StopAtStrings(self.vocabulary, stops) if stops else NeverExit()

        return self._runtime.submit(
            TextRequest(
                id=f"t{next(self._numbers)}",
                tenant=caller.tenant,
                model=model,
                prompt=tuple(prompt),
                max_tokens=max_tokens,
                ttft_s=self._limits.ttft_s,
                tbt_s=self._limits.tbt_s,
                stop_tokens=self.vocabulary.end_tokens,
                fallback_tokens=tuple(size for size in shorter if size < max_tokens),
                priority=caller.priority,
                exit_policy=policy,
                input=msgspec.to_builtins(sampling),
            )
        )

    def _tokens(self, text: Prompt) -> list[int]:
        tokens = self.vocabulary.encode(text) if isinstance(text, str) else text
        if not tokens:
            raise refused("an empty text can't be continued")
        return tokens


async def _told(exchange: Exchange) -> AsyncGenerator[Accept | EmitToken | Finish | Reject, None]:
    try:
        async for what in exchange:
            yield what
    except RuntimeBrokenError as error:
        raise FailureError(failure.of_the_engine(error)) from None


async def _accepted(exchange: Exchange) -> None:
    """Raises FailureError when it was not."""
    async with aclosing(_told(exchange)) as told:
        async for what in told:
            if isinstance(what, Accept):
                return
            if isinstance(what, Reject):
                raise FailureError(failure.of_rejection(what))


async def _vector(exchange: Exchange) -> NDArray[np.float32]:
    vector: object = None
    async with aclosing(_told(exchange)) as told:
        async for what in told:
            match what:
                case EmitToken(output=output):
                    vector = output
                case Reject():
                    raise FailureError(failure.of_rejection(what))
                case Finish():
                    if failed := failure.of_end(what):
                        raise FailureError(failed)
    found = cast("NDArray[np.float32]", vector)
    return found / max(float(np.linalg.norm(found)), 1e-12)
