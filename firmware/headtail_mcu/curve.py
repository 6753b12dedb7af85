"""ZMTP's CURVE mechanism (RFC 26), the client's side, as libzmq 4.3 speaks it.

Where libzmq and the text differ, libzmq is followed: message nonces end in C and S, messages are
ordinary frames, and inside the box bit 1 marks a command.
"""

import os

from .box import TAG_BYTES, public_key, seal, seal_in_place, shared_key, unseal, unseal_in_place
from .errors import LinkError
from .mechanisms import unexpected
from .zmtp import COMMAND, MORE, header

_INNER_COMMAND = 2


class Curve:
    """Keys are 32 bytes: the server's public one, this node's secret one.

    `public`: the node's own, to save finding it again. `random(n)` gives bytes for keys and nonces.
    """

    NAME = b"CURVE"

    def __init__(self, server, secret, public=None, random=os.urandom):
        if len(server) != 32 or len(secret) != 32:
            raise ValueError("CURVE keys have 32 bytes")
        self._server = server
        self._secret = secret
        self._public = public or public_key(secret)
        self._random = random
        self._short_secret = random(32)
        self._short_public = public_key(self._short_secret)
        self._to_server = shared_key(self._short_secret, server)
        self._key = None
        self._nonce = 0
        self._peer_nonce = 0
        self._metadata = b""
        self._welcomed = False

    def start(self, metadata):
        self._metadata = metadata
        nonce = self._next_nonce()
        box = seal(self._to_server, b"CurveZMQHELLO---" + nonce, bytes(64))
        return b"\x05HELLO\x01\x00" + bytes(72) + self._short_public + nonce + box

    def handshake(self, name, data):
        if name == b"WELCOME" and not self._welcomed:
            self._welcomed = True
            return None, self._initiate(data)
        if name != b"READY" or self._key is None or len(data) < 24:
            raise unexpected(name)
        self._check_nonce(data[:8])
        return unseal(self._key, b"CurveZMQREADY---" + data[:8], data[8:]), None

    def frame(self, flags, body):
        inner = (flags & MORE) | (_INNER_COMMAND if flags & COMMAND else 0)
        nonce = self._next_nonce()
        first = header(0, 33 + len(body)) + b"\x07MESSAGE" + nonce
        at = len(first) + TAG_BYTES
        data = bytearray(at + 1 + len(body))
        data[: len(first)] = first
        data[at] = inner
        data[at + 1 :] = body
        seal_in_place(self._key, b"CurveZMQMESSAGEC" + nonce, data, at)
        return data

    def opened(self, flags, body):
        if body[:8] != b"\x07MESSAGE" or len(body) < 33:
            raise LinkError("a frame that is not encrypted")
        nonce = bytes(body[8:16])
        self._check_nonce(nonce)
        unseal_in_place(self._key, b"CurveZMQMESSAGES" + nonce, body, 32)
        flags = body[32]
        body[:33] = b""  # in place: a large message has to fit once only
        return (flags & MORE) | (COMMAND if flags & _INNER_COMMAND else 0), body

    def _initiate(self, data):
        if len(data) != 160:
            raise LinkError(f"WELCOME of {len(data)} bytes")
        inner = unseal(self._to_server, b"WELCOME-" + data[:16], data[16:])
        server_short, cookie = inner[:32], inner[32:]
        self._key = shared_key(self._short_secret, server_short)
        vouch_nonce = self._random(16)
        vouch_key = shared_key(self._secret, server_short)
        vouch = seal(vouch_key, b"VOUCH---" + vouch_nonce, self._short_public + self._server)
        plain = self._public + vouch_nonce + vouch + self._metadata
        nonce = self._next_nonce()
        box = seal(self._key, b"CurveZMQINITIATE" + nonce, plain)
        return b"\x08INITIATE" + cookie + nonce + box

    def _next_nonce(self):
        self._nonce += 1
        return self._nonce.to_bytes(8, "big")

    def _check_nonce(self, nonce):
        """They only grow, so nothing is accepted twice."""
        value = int.from_bytes(nonce, "big")
        if value <= self._peer_nonce:
            raise LinkError("a frame that came before")
        self._peer_nonce = value
