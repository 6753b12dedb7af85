"""Sealed datagrams: to an exit's public key, with a one-time key for the replies.

    seal      e random, E = eB; s = DH(e, X); request key and reply key = HKDF(s, salt E || X)
              message = E || AES-256-GCM(request key, nonce 0, plaintext)
    reply     AES-256-GCM(reply key, nonce = index, plaintext); index counts from 0

Each datagram has a fresh E, so its keys are used once and nonce 0 is safe. Only the holder of the
exit's secret key reads a request; nothing in it tells who sealed it, and two requests of one
sender have nothing in common. `label` lets the sender find its replies in a broadcast.
"""

from dataclasses import dataclass, field
from typing import Final

from headtail_prifi.crypto.cipher import NONCE_BYTES, TAG_BYTES, Buffer, PadCipher
from headtail_prifi.crypto.derive import hkdf
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import EncodingError, SealError
from headtail_prifi.crypto.group import POINT_BYTES, Group, Point

SEAL_OVERHEAD: Final = POINT_BYTES + TAG_BYTES
REPLY_OVERHEAD: Final = TAG_BYTES
LABEL_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyKey:
    """The one-time key of the replies to one sealed request; `label` (16 bytes) is public."""

    label: bytes
    _key: bytes = field(repr=False)
    _cipher: PadCipher = field(repr=False, compare=False)

    def seal(self, index: int, plaintext: Buffer) -> bytes:
        """Reply number `index`, 16 bytes longer. An index must not be used twice."""
        return self._cipher.seal(
            key=self._key,
            nonce=index.to_bytes(NONCE_BYTES),
            plaintext=plaintext,
            associated=self.label,
        )

    def open(self, index: int, sealed: Buffer) -> bytes:
        """The reply; SealError unless it was sealed with this key under this index."""
        return self._cipher.open(
            key=self._key, nonce=index.to_bytes(NONCE_BYTES), sealed=sealed, associated=self.label
        )


def seal(
    group: Group,
    cipher: PadCipher,
    exit_key: Point,
    plaintext: Buffer,
    *,
    context: bytes,
    entropy: Entropy,
) -> tuple[bytes, ReplyKey]:
    """The sealed request, `SEAL_OVERHEAD` bytes longer, and the key that opens its replies."""
    secret = group.random_scalar(entropy)
    ephemeral = group.mul_base(secret).encode()
    (shared,) = group.diffie_hellman(secret, (exit_key,))
    key, reply = _keys(cipher, shared, ephemeral, exit_key, context)
    return ephemeral + cipher.seal(key=key, nonce=bytes(NONCE_BYTES), plaintext=plaintext), reply


def open_sealed(
    group: Group, cipher: PadCipher, exit_secret: int, sealed: Buffer, *, context: bytes
) -> tuple[bytes, ReplyKey]:
    """What `seal` sealed to the key of `exit_secret` in this context, and the key to reply with.

    Raises SealError for everything else. The caller refuses repeated datagrams, if it must.
    """
    ephemeral = bytes(sealed[:POINT_BYTES])
    try:
        point = group.decode(ephemeral)
    except EncodingError:
        raise SealError("a sealed message does not open") from None
    (shared,) = group.diffie_hellman(exit_secret, (point,))
    key, reply = _keys(cipher, shared, ephemeral, group.mul_base(exit_secret), context)
    plaintext = cipher.open(key=key, nonce=bytes(NONCE_BYTES), sealed=sealed[POINT_BYTES:])
    return plaintext, reply


def _keys(
    cipher: PadCipher, shared: bytes, ephemeral: bytes, exit_key: Point, context: bytes
) -> tuple[bytes, ReplyKey]:
    material = hkdf(
        secret=shared,
        salt=ephemeral + exit_key.encode(),
        purpose="prifi/seal",
        context=context,
        size=32 + 32 + LABEL_BYTES,
    )
    return material[:32], ReplyKey(label=material[64:], _key=material[32:64], _cipher=cipher)
