"""Every key of the DC-net from a shared secret: HKDF-SHA256 (RFC 5869) with a purpose each."""

import hashlib
import hmac
from typing import Final

_HASH_BYTES: Final = 32
_MAX_INFO_BYTES: Final = 65_535


def hkdf(
    *, secret: bytes, salt: bytes, purpose: str, context: bytes = b"", size: int = 32
) -> bytes:
    """`size` bytes bound to the salt, the purpose and the context.

    The info string is the purpose, a zero byte, then the context; a purpose holds no zero byte,
    so no two pairs of them give one info string.
    """
    if "\0" in purpose or not purpose or len(context) > _MAX_INFO_BYTES:
        raise ValueError(f"no purpose for a key: {purpose!r}")
    if not 0 < size <= 255 * _HASH_BYTES:
        raise ValueError(f"HKDF can't give {size} bytes")
    return _expand(
        hmac.digest(salt or bytes(_HASH_BYTES), secret, hashlib.sha256),
        purpose.encode() + b"\0" + context,
        size,
    )


def _expand(key: bytes, info: bytes, size: int) -> bytes:
    output = block = b""
    counter = 0
    while len(output) < size:
        counter += 1
        block = hmac.digest(key, block + info + bytes([counter]), hashlib.sha256)
        output += block
    return output[:size]


def pad_key(
    *,
    secret: bytes,
    epoch_id: bytes,
    roster_hash: bytes,
    version: int,
    client: int,
    guard: int,
) -> bytes:
    """The AES-256 key of the pads that client and guard (by index) share in one roster version.

    `secret` is their Diffie-Hellman secret of the epoch (`Group.diffie_hellman`), `roster_hash`
    the hash of the membership that `version` counts. A change of any of them gives unrelated pads,
    so that nothing decodes in a round in which two honest parties hold different rosters.
    """
    context = roster_hash + version.to_bytes(8) + client.to_bytes(4) + guard.to_bytes(4)
    if len(roster_hash) != _HASH_BYTES or len(epoch_id) != _HASH_BYTES:
        raise ValueError("epoch and roster are named by 32 bytes each")
    return hkdf(secret=secret, salt=epoch_id, purpose="prifi/pad", context=context)
