"""Payloads sealed end to end: from a device to an edge's key, whoever carries them in between.

    Sealer (device)                              Opener (edge)
      begin(session, boot)                         enc -> context, once an epoch
      seal(id, bundle, cut, tensors) ----------->  open(...) -> tensors, AnswerSealer
      open(id, answer) <-------------------------  AnswerSealer.seal(tensors)

Requests follow HPKE base mode (RFC 9180) with the suite DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
ChaCha20-Poly1305; answers the encapsulated responses of Oblivious HTTP (RFC 9458, 4.4). CURVE
secures one connection; a seal holds across relays that end the connections. `docs/security.md`
says what it protects against and what it does not.
"""

from headtail_fabric.seal.errors import (
    NotSealedError,
    ReplayedError,
    SealError,
    TamperedError,
    TruncatedError,
    WrongSealKeyError,
)
from headtail_fabric.seal.opener import AnswerSealer, Opener
from headtail_fabric.seal.sealer import Sealer

__all__ = [
    "AnswerSealer",
    "NotSealedError",
    "Opener",
    "ReplayedError",
    "SealError",
    "Sealer",
    "TamperedError",
    "TruncatedError",
    "WrongSealKeyError",
]
