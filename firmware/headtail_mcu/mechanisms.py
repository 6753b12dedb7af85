"""ZMTP's mechanisms without cryptography: NULL (RFC 23) and PLAIN (RFC 24).

A mechanism has a NAME, `start(metadata)` for the first command, `handshake(name, data)` that gives
(the server's metadata once it is done or None, the next command or None), and turns messages into
frames and back: `frame(flags, body)`, `opened(flags, body)`.
"""

from .errors import LinkError
from .zmtp import frame


class Null:
    """Nobody is asked who they are."""

    NAME = b"NULL"

    def start(self, metadata):
        return b"\x05READY" + metadata

    def handshake(self, name, data):
        if name != b"READY":
            raise unexpected(name)
        return data, None

    def frame(self, flags, body):
        return frame(flags, body)

    def opened(self, flags, body):
        return flags, body


class Plain(Null):
    """A name and a password in clear: for links that something else protects."""

    NAME = b"PLAIN"

    def __init__(self, user, password):
        if len(user) > 255 or len(password) > 255:
            raise ValueError("a name and a password have 255 bytes at most")
        self._credentials = bytes((len(user),)) + user + bytes((len(password),)) + password
        self._metadata = b""

    def start(self, metadata):
        self._metadata = metadata
        return b"\x05HELLO" + self._credentials

    def handshake(self, name, data):
        if name == b"WELCOME" and self._metadata:
            metadata, self._metadata = self._metadata, b""
            return None, b"\x08INITIATE" + metadata
        if name != b"READY" or self._metadata:
            raise unexpected(name)
        return data, None


def unexpected(name):
    """The error for a command that the handshake does not have at this point."""
    return LinkError(f"command {bytes(name)} in the handshake")
