"""What a frozen network gives for a fixed set of samples, computed once and kept on disk.

A frozen trunk and a teacher give the same numbers in every epoch; with both on disk a step costs
only what learns.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import torch

from headtail_models.training.errors import TrainingDataError

_TABLE: Final = "table.json"

Tensors = Mapping[str, torch.Tensor]


class FeatureCache:
    """Named tensors (count, ...) in bfloat16, one file each, mapped into memory."""

    def __init__(self, folder: Path) -> None:
        table = json.loads((folder / _TABLE).read_text(encoding="utf-8"))
        self.count = int(table["count"])
        self._arrays = {
            name: np.memmap(
                folder / f"{name}.bf16", dtype=np.int16, mode="r", shape=(self.count, *shape)
            )
            for name, shape in table["shapes"].items()
        }

    def take(self, numbers: Iterable[int]) -> dict[str, torch.Tensor]:
        """The samples of those numbers, (n, ...) bfloat16."""
        order = sorted(numbers)
        return {
            name: torch.from_numpy(array[order]).view(torch.bfloat16)
            for name, array in self._arrays.items()
        }


def open_cache(
    folder: Path,
    name: str,
    *,
    key: Mapping[str, object],
    batches: Callable[[], Iterable[Tensors]],
    progress: Callable[[int], None] = lambda _: None,
) -> FeatureCache:
    """The cache `name` in `folder`, made of `batches` first unless one of the same `key` is there.

    Every batch holds the same names, (n, ...); `progress` hears how many samples are there. Safe to
    call from several processes at once: each makes its own, and the first to be done is kept.
    Raises TrainingDataError when there are no samples.
    """
    wanted = json.dumps(key, sort_keys=True)
    place = folder / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not (place / _TABLE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
        try:
            _fill(draft, batches(), progress)
            with suppress(OSError):  # another process was done first
                draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return FeatureCache(place)


def _fill(folder: Path, batches: Iterable[Tensors], progress: Callable[[int], None]) -> None:
    shapes: dict[str, tuple[int, ...]] = {}
    count = 0
    for batch in batches:
        for name, tensor in batch.items():
            shapes[name] = tuple(tensor.shape[1:])
            data = tensor.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
            with (folder / f"{name}.bf16").open("ab") as file:
                data.tofile(file)
        count += next(iter(batch.values())).shape[0]
        progress(count)
    if not count:
        raise TrainingDataError("there was nothing to take features of")
    (folder / _TABLE).write_text(json.dumps({"count": count, "shapes": shapes}), "utf-8")
