"""What may be wrong with a key, a proof or a sealed message that came from outside."""

from headtail_fabric.errors import PeerError


class CryptoError(PeerError):
    """Key material, a proof or a sealed message from another party does not check out."""


class EncodingError(CryptoError):
    """A group element or scalar is not in its one canonical encoding, is not on the curve or is
    the identity. Its sender runs other software or is hostile; it must be refused."""


class ProofError(CryptoError):
    """A zero-knowledge proof does not hold for the statement and the context it was sent with.
    The party that made it broke the protocol; keep the signed message as evidence."""


class SignatureError(CryptoError):
    """A signature is not valid for the pinned key, the purpose and the message. Check that both
    sides hold the same roster; else somebody is impersonating its sender."""


class SealError(CryptoError):
    """A sealed message does not open with this key: it is meant for someone else, was altered,
    or was sealed in another epoch. Nothing was learned from it; drop it."""
