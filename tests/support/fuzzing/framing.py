"""Several frames as one input, and back. Any bytes are some frames."""

from collections.abc import Sequence
from typing import Final

_MOST: Final = 20


def join(frames: Sequence[bytes]) -> bytes:
    """The number of frames, their sizes (3 bytes each), then the frames."""
    sizes = b"".join(len(frame).to_bytes(3) for frame in frames)
    return bytes([len(frames)]) + sizes + b"".join(frames)


def split(data: bytes) -> list[bytes]:
    """The frames of an input; where sizes say more than is there, frames are shorter."""
    count = min(data[0], _MOST) if data else 0
    at = 1 + 3 * count
    frames = []
    for number in range(count):
        size = int.from_bytes(data[1 + 3 * number : 4 + 3 * number])
        frames.append(data[at : at + size])
        at += size
    return frames
