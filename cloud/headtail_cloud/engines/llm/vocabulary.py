"""The seam between text and tokens."""

import codecs
from collections.abc import Mapping, Sequence
from typing import Protocol

from headtail_fabric.errors import ConfigError, PeerError

Message = Mapping[str, object]
"""Of a conversation: its `role` and its `content`."""


class NoChatError(ConfigError):
    """This model has no chat template: it continues texts, and holds no conversations. Ask it at
    /v1/completions."""


class BadConversationError(PeerError):
    """The model's chat template can't render these messages. Look at their roles and contents."""


class Vocabulary(Protocol):
    """Of one model."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """Those that end a text."""
        ...

    def encode(self, text: str) -> list[int]:
        """Nothing is put before or after; the texts of control tokens become these."""
        ...

    def bytes_of(self, token: int) -> bytes:
        """A piece of UTF-8, perhaps not a whole character; empty for control tokens."""
        ...

    def conversation(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()
    ) -> str:
        """The text that the next turn of the assistant continues.

        Where the model knows nothing of tools, a system message before the others lists them.
        Raises NoChatError, BadConversationError.
        """
        ...


class Detokeniser:
    """Tokens one at a time to text; a character is given when its last byte is here."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token: int) -> str:
        return self._decoder.decode(self._vocabulary.bytes_of(token))

    def end(self) -> str:
        """What a character that was never finished becomes."""
        return self._decoder.decode(b"", final=True)
