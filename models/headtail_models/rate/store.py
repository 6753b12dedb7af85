"""Results of earlier runs, on disk: one file for each method on one set of samples.

A file that can't be read counts as absent; two processes that write the same one write the same.
"""

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.rate.tally import Answer

_LAYOUT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """Of one method: payload bytes (P,) and answers of all samples, in their order."""

    sizes: NDArray[np.int64]
    answers: tuple[Answer, ...]


class Store:
    """Under `folder`, which is made when first needed. With `fresh` nothing is read."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self._folder, self._fresh = folder, fresh

    def read(self, key: Mapping[str, str]) -> Results | None:
        """What was written under `key`, if it was."""
        if self._fresh:
            return None
        try:
            with np.load(self._path(key), allow_pickle=False) as found:
                ends = np.cumsum(found["lengths"])[:-1]
                return Results(sizes=found["sizes"], answers=tuple(np.split(found["rows"], ends)))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def write(self, key: Mapping[str, str], results: Results) -> None:
        """Raises OSError."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            np.savez_compressed(
                file,
                sizes=results.sizes,
                lengths=np.array([len(answer) for answer in results.answers]),
                rows=np.concatenate(results.answers),
            )
        Path(file.name).replace(path)

    def _path(self, key: Mapping[str, str]) -> Path:
        text = json.dumps({"layout": _LAYOUT, **key}, sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def digest_of(answers: Sequence[Answer]) -> str:
    """Stands for answers: equal for networks that do the same on the same samples."""
    whole = hashlib.sha256()
    for answer in answers:
        whole.update(repr(answer.shape).encode())
        whole.update(np.ascontiguousarray(answer).tobytes())
    return whole.hexdigest()
