"""What callers of the OpenAI API get: whole answers, and the events of a stream."""

import base64
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_cloud.engines.llm.sampling import Chosen
from headtail_cloud.engines.llm.vocabulary import Vocabulary
from headtail_cloud.gateway.failure import Failure
from headtail_cloud.open_ai.service import TextEnd, TextPiece

Json = dict[str, Any]

DONE: Final = b"data: [DONE]\n\n"
_CALL: Final = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


def event(content: Json) -> bytes:
    """One of a stream of server-sent events."""
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def of_failure(failed: Failure) -> Json:
    """The error object that clients look for."""
    kind = "invalid_request_error" if 400 <= failed.status < 500 else "server_error"
    return {"error": {"message": failed.message, "type": kind, "param": None, "code": failed.code}}


def usage(end: TextEnd) -> Json:
    """What it took."""
    return {
        "prompt_tokens": end.prompt_tokens,
        "completion_tokens": end.completion_tokens,
        "total_tokens": end.prompt_tokens + end.completion_tokens,
    }


@dataclass(slots=True, kw_only=True)
class _Answer:
    """One answer while it comes. `created`: seconds of the wall clock."""

    model: str
    created: int
    vocabulary: Vocabulary
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    text: str = ""
    logprobs: list[Json] = field(default_factory=list)

    def add(self, piece: TextPiece) -> None:
        self.text += piece.text
        if piece.chosen is not None:
            self.logprobs.append(self._logprob(piece.chosen))

    def _logprob(self, chosen: Chosen) -> Json:
        raise NotImplementedError

    def _word(self, token: int) -> str:
        return self.vocabulary.bytes_of(token).decode(errors="replace")


class ChatAnswer(_Answer):
    """Of /v1/chat/completions."""

    def begun(self) -> Json:
        """The stream's first event."""
        return self._chunk({"role": "assistant", "content": ""}, [])

    def chunk(self, piece: TextPiece) -> Json | None:
        """A piece's event; None for one that shows nothing."""
        logprobs = [] if piece.chosen is None else [self._logprob(piece.chosen)]
        if not piece.text and not logprobs:
            return None
        return self._chunk({"content": piece.text}, logprobs)

    def ended(self, end: TextEnd) -> Json:
        """The last event but usage."""
        return self._chunk({}, [], reason=end.reason)

    def usage(self, end: TextEnd) -> Json:
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage(end)}

    def whole(self, end: TextEnd, *, tools: bool) -> Json:
        """Not streamed. With `tools`, what the model wrote as calls of them stands in
        `tool_calls`."""
        message: Json = {"role": "assistant", "content": self.text, "refusal": None}
        reason = end.reason
        if tools and (calls := _calls(self.text)):
            message |= {"content": _CALL.sub("", self.text).strip() or None, "tool_calls": calls}
            reason = "tool_calls"
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": reason,
            "logprobs": {"content": self.logprobs, "refusal": None} if self.logprobs else None,
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(end)}

    def _chunk(self, delta: Json, logprobs: list[Json], reason: str | None = None) -> Json:
        choice = {
            "index": 0,
            "delta": delta,
            "finish_reason": reason,
            "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
        }
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }

    def _logprob(self, chosen: Chosen) -> Json:
        top = [self._one(token, logprob) for token, logprob in chosen.top]
        return {**self._one(chosen.token, chosen.logprob or 0.0), "top_logprobs": top}

    def _one(self, token: int, logprob: float) -> Json:
        return {
            "token": self._word(token),
            "logprob": logprob,
            "bytes": list(self.vocabulary.bytes_of(token)),
        }


class CompletionAnswer(_Answer):
    """Of /v1/completions."""

    def begun(self) -> None:
        """Its stream has no first event."""

    def chunk(self, piece: TextPiece) -> Json | None:
        """A piece's event; None for one that shows nothing."""
        logprobs = [] if piece.chosen is None else [self._logprob(piece.chosen)]
        if not piece.text and not logprobs:
            return None
        return self._answer(piece.text, logprobs)

    def ended(self, end: TextEnd) -> Json:
        """The last event but usage."""
        return self._answer("", [], reason=end.reason)

    def usage(self, end: TextEnd) -> Json:
        return {**self._answer("", []), "choices": [], "usage": usage(end)}

    def whole(self, end: TextEnd, *, tools: bool) -> Json:
        """Not streamed."""
        return {**self._answer(self.text, self.logprobs, end.reason), "usage": usage(end)}

    def _answer(self, text: str, logprobs: list[Json], reason: str | None = None) -> Json:
        choice = {
            "index": 0,
            "text": text,
            "finish_reason": reason,
            "logprobs": _columns(logprobs) if logprobs else None,
        }
        return {
            "id": f"cmpl-{self.id}",
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }

    def _logprob(self, chosen: Chosen) -> Json:
        return {
            "tokens": self._word(chosen.token),
            "token_logprobs": chosen.logprob,
            "top_logprobs": {self._word(token): logprob for token, logprob in chosen.top},
        }


def embeddings(
    vectors: Sequence[NDArray[np.float32]], *, model: str, tokens: int, packed: bool
) -> Json:
    """Of /v1/embeddings; `packed` as base64 of little-endian float32."""
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": _packed(vector) if packed else vector.tolist(),
        }
        for at, vector in enumerate(vectors)
    ]
    used = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": used}


def models(names: Sequence[str], created: int) -> Json:
    """Of /v1/models."""
    return {"object": "list", "data": [model(name, created) for name in names]}


def model(name: str, created: int) -> Json:
    """Of /v1/models/NAME."""
    return {"id": name, "object": "model", "created": created, "owned_by": "headtail"}


def _packed(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _columns(logprobs: Sequence[Json]) -> Json:
    columns = {name: [one[name] for one in logprobs] for name in logprobs[0]}
    offsets, at = [], 0
    for word in columns["tokens"]:
        offsets.append(at)
        at += len(word)
    return {**columns, "text_offset": offsets}


def _calls(text: str) -> list[Json]:
    """What the model wrote as calls; something that is no JSON is text."""
    calls: list[Json] = []
    for written in _CALL.findall(text):
        try:
            call = json.loads(written)
        except ValueError:
            continue
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            arguments = call.get("arguments", {})
            function = {"name": call["name"], "arguments": json.dumps(arguments)}
            identity = f"call_{secrets.token_hex(8)}"
            calls.append({"id": identity, "type": "function", "function": function})
    return calls
