"""Requests of the OpenAI API. What is not done here is refused, never ignored, where it would
change the answer."""

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from headtail_cloud.engines.llm.sampling import MAX_ALTERNATIVES
from headtail_cloud.gateway.failure import Failure, FailureError

_MAX_MESSAGES: Final = 1024
_MAX_STOPS: Final = 4
_MAX_INPUTS: Final = 64
_MAX_TOOLS: Final = 128
_MOST_TOKENS: Final = 1 << 31

_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Stop = Annotated[str, Meta(min_length=1, max_length=200)]

Prompt = str | list[int]
"""Text, or tokens."""


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    text: str = ""


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    function: dict[str, Any]


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    role: Annotated[str, Meta(pattern=r"^[a-z_]{1,20}\Z")]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None

    def rendered(self) -> dict[str, object]:
        """For a chat template: text alone, calls of tools as the model writes them. Raises
        FailureError for parts that are no text."""
        if isinstance(self.content, list):
            for part in self.content:
                if part.type != "text":
                    raise refused(f"content of type {part.type[:40]!r}: only text is understood")
            text = "".join(part.text for part in self.content)
        else:
            text = self.content or ""
        for call in self.tool_calls or ():
            text += f"<tool_call>\n{msgspec.json.encode(call.function).decode()}\n</tool_call>"
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": text}


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    include_usage: bool = False


class _TextRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: _Name
    max_tokens: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=_MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logit_bias: Annotated[dict[str, float], Meta(max_length=1024)] | None = None
    n: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def bias(self) -> dict[int, float]:
        """Raises FailureError."""
        try:
            return {int(token): value for token, value in (self.logit_bias or {}).items()}
        except ValueError:
            raise refused("logit_bias: its keys are the numbers of tokens") from None

    @property
    def tells_usage(self) -> bool:
        """At the end of a stream."""
        return self.stream_options is not None and self.stream_options.include_usage

    def check(self) -> None:
        """Raises FailureError for what is asked and not done here."""
        if self.n not in (None, 1):
            raise refused("n: one answer a request")
        if self.frequency_penalty or self.presence_penalty:
            raise refused("frequency_penalty, presence_penalty: not done here")


class ChatRequest(_TextRequest, frozen=True, kw_only=True):
    messages: Annotated[list[ChatMessage], Meta(min_length=1, max_length=_MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_ALTERNATIVES)] | None = None
    tools: Annotated[list[dict[str, Any]], Meta(max_length=_MAX_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The tools that the model is told of."""
        return [] if self.tool_choice == "none" else self.tools or []

    def check(self) -> None:
        super().check()
        if self.top_logprobs and not self.logprobs:
            raise refused("top_logprobs: logprobs must be true")
        if self.tool_choice not in (None, "none", "auto"):
            raise refused("tool_choice: the model can't be made to call one")
        if self.response_format and self.response_format.get("type") != "text":
            raise refused("response_format: only text")


class CompletionRequest(_TextRequest, frozen=True, kw_only=True):
    prompt: str | list[Any] = ""
    logprobs: Annotated[int, Meta(ge=0, le=MAX_ALTERNATIVES)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None

    @property
    def limit(self) -> int:
        return self.max_tokens or 16

    def check(self) -> None:
        super().check()
        if self.echo or self.suffix or self.best_of not in (None, 1):
            raise refused("echo, suffix, best_of: not done here")

    @property
    def text(self) -> Prompt:
        """What is continued. Raises FailureError."""
        prompts = _prompts("prompt", self.prompt)
        if len(prompts) != 1:
            raise refused("prompt: one a request")
        return prompts[0]


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: _Name
    input: str | list[Any]
    encoding_format: str = "float"
    dimensions: int | None = None

    @property
    def inputs(self) -> list[Prompt]:
        """Raises FailureError."""
        return _prompts("input", self.input)

    def check(self) -> None:
        """Raises FailureError."""
        if self.encoding_format not in ("float", "base64"):
            raise refused("encoding_format: float or base64")


_RequestT = TypeVar("_RequestT", ChatRequest, CompletionRequest, EmbeddingRequest)


def parse(body: bytes, kind: type[_RequestT]) -> _RequestT:
    """Raises FailureError, whatever comes."""
    try:
        request = msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise refused(f"not such a request: {error}") from None
    request.check()
    return request


def _prompts(name: str, given: str | list[Any]) -> list[Prompt]:
    """A text, the tokens of one, or several of either."""
    several = given if isinstance(given, list) and not _are_tokens(given) else [given]
    good = all(isinstance(one, str) or _are_tokens(one) for one in several)
    if not several or not good or len(several) > _MAX_INPUTS:
        raise refused(f"{name}: a text, tokens, or up to {_MAX_INPUTS} of them")
    return several


def _are_tokens(given: object) -> bool:
    return (
        isinstance(given, list)
        and bool(given)
        and all(type(token) is int and 0 <= token < _MOST_TOKENS for token in given)
    )


def refused(message: str) -> FailureError:
    """The caller's mistake."""
    return FailureError(Failure(status=400, code="bad-request", message=message))
