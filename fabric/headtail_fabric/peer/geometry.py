"""How many bytes ZeroMQ's framing adds: ZMTP 3.1 (RFC 37) and CURVE (RFC 26), exactly.

frame            1 flag byte, then 1 length byte (body up to 255 bytes) or 8, then the body
CURVE MESSAGE    each frame's body becomes 8 bytes "\\x07MESSAGE", an 8-byte nonce, a 16-byte
                 authenticator, and a flags byte sealed with the body
"""

from typing import Final

from headtail_fabric.wire import Frames

_CURVE_OVERHEAD: Final = 8 + 8 + 16 + 1


def framed_bytes(frames: Frames, *, curve: bool) -> int:
    """Bytes that one multipart message puts on a TCP stream."""
    total = 0
    overhead = _CURVE_OVERHEAD if curve else 0
    for frame in frames:
        body = overhead + (frame.nbytes if isinstance(frame, memoryview) else len(frame))
        total += body + (2 if body <= 255 else 9)
    return total
