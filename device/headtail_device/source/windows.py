"""A stream cut into overlapping windows, piece by piece as it comes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Windows:
    """Windows `length` long that begin `hop` apart, out of arrays that are joined along axis 0.

    Keeps no more than a window, or with `hop` above `length` than what comes at once.
    """

    def __init__(self, *, length: int, hop: int) -> None:
        if length < 1 or hop < 1:
            raise ValueError(f"windows of {length}, {hop} apart")
        self._length = length
        self._hop = hop
        self._kept: NDArray[Any] | None = None
        self._skip = 0

    def __repr__(self) -> str:
        kept = 0 if self._kept is None else len(self._kept)
        return f"<Windows {self._length}/{self._hop} kept={kept}>"

    def add(self, piece: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """The windows that end in `piece`, each an array of its own. To be exhausted."""
        skipped = min(self._skip, len(piece))
        self._skip -= skipped
        piece = piece[skipped:]
        kept = piece if self._kept is None else np.concatenate((self._kept, piece))
        while len(kept) >= self._length:
            yield kept[: self._length].copy()
            self._skip += max(0, self._hop - len(kept))
            kept = kept[self._hop :]
        self._kept = kept.copy()
