"""Text to tokens and back, and conversations to text."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Final

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from headtail_cloud.engines.llm.vocabulary import BadConversationError, Message, NoChatError


class Tokeniser:
    """A `Vocabulary`, from a checkpoint's files. Thread-safe."""

    def __init__(
        self, tokeniser: Tokenizer, *, template: str | None, end_tokens: Sequence[int]
    ) -> None:
        self._tokeniser = tokeniser
        self.end_tokens = frozenset(end_tokens)
        words = [tokeniser.id_to_token(at) for at in range(tokeniser.get_vocab_size())]
        special = {
            at for at, token in tokeniser.get_added_tokens_decoder().items() if token.special
        }
        self._controls = [token for at in special if (token := words[at])]
        self._bytes = [
            b"" if at in special else _bytes_of(word or "") for at, word in enumerate(words)
        ]
        self._template = None
        if template is not None:
            environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
            environment.globals["raise_exception"] = _refuse
            environment.globals["strftime_now"] = _today
            self._template = environment.from_string(template)
        self._knows_tools = template is not None and "tools" in template

    def __repr__(self) -> str:
        return f"<Tokeniser of {len(self._bytes)} tokens>"

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = self._tokeniser.encode(text, add_special_tokens=False).ids
        return tokens

    def bytes_of(self, token: int) -> bytes:
        return self._bytes[token] if 0 <= token < len(self._bytes) else b""

    def decode(self, tokens: Sequence[int]) -> str:
        """All of a text."""
        return b"".join(map(self.bytes_of, tokens)).decode(errors="replace")

    def conversation(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()
    ) -> str:
        if self._template is None:
            raise NoChatError("the model has no chat template")
        if tools and not self._knows_tools:
            messages = [{"role": "system", "content": _described(tools)}, *messages]
        plain = [{**message, "content": self._without_controls(message)} for message in messages]
        try:
            return self._template.render(
                messages=plain, tools=tools or None, add_generation_prompt=True
            )
        except (TemplateError, TypeError) as error:
            raise BadConversationError(f"the messages can't be rendered: {error}") from None

    def _without_controls(self, message: Message) -> str:
        """Nobody may begin a turn, or end one, by writing it."""
        content = str(message.get("content") or "")
        for word in self._controls:
            content = content.replace(word, "")
        return content


def _byte_letters() -> dict[str, int]:
    """GPT-2's way to write bytes as visible letters: those that are visible stand for themselves,
    the others for the letters from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in visible}
    hidden = [byte for byte in range(256) if byte not in visible]
    return letters | {chr(256 + at): byte for at, byte in enumerate(hidden)}


_BYTE_OF: Final = _byte_letters()


def _bytes_of(word: str) -> bytes:
    if all(letter in _BYTE_OF for letter in word):
        return bytes(_BYTE_OF[letter] for letter in word)
    return word.encode()


def _described(tools: Sequence[Mapping[str, object]]) -> str:
    listed = "\n".join(json.dumps(tool) for tool in tools)
    return (
        "You may call these functions:\n"
        f"<tools>\n{listed}\n</tools>\n"
        "To call one, answer with\n"
        '<tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call>'
    )


def _refuse(message: str) -> str:
    raise TemplateError(message)


def _today(pattern: str) -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime(pattern)
