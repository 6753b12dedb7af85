"""Readings of a phone on a waist, by persons: who is trained on is never measured on.

The recordings are UCI's "Smartphone-Based Recognition of Human Activities and Postural
Transitions" (Reyes-Ortiz et al., Neurocomputing 2016, CC BY 4.0): 30 persons, 50 Hz, acceleration
in g and turning in rad/s. The asset `hapt` holds them as a pickle of tables. Nothing of a pickle
is trusted: only arrays of numbers and hollow stand-ins for the tables around them are made.
"""

import gzip
import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.bundle.preprocess import Signal
from headtail_models.training.errors import TrainingDataError

ASSET: Final = "hapt"
FILE: Final = "HAPT.pkl.gz"
LABELS: Final = ("walking", "upstairs", "downstairs", "sitting", "standing", "lying")
"""Labels 1 to 6 of the recordings; transitions between postures (7 to 12) are left out."""
CHANNELS: Final = ("acc-x", "acc-y", "acc-z", "gyro-x", "gyro-y", "gyro-z")
WINDOW: Final = 128
"""2.56 s, as the recordings' authors have it."""
COUNTS: Final = (8192.0,) * 3 + (3753.0,) * 3
"""A g and a radian a second in counts of an MPU-6050 at +-4 g and +-500 degrees a second."""
SIGNAL: Final = Signal(
    rate_hz=50.0,
    window=WINDOW,
    hop=WINDOW // 2,
    offset=(0.0,) * 6,
    scale=COUNTS,
    units="counts of an MPU-6050 at 4 g and 500 degrees a second",
)

_LABEL: Final = "label"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """`readings` (n, 6) int16 counts, `labels` (n,), 0 for none."""

    person: int
    readings: NDArray[np.int16]
    labels: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """`samples` (N, 128, 6) counts and what each is, an index of `LABELS`, (N,)."""

    samples: NDArray[np.int16]
    labels: NDArray[np.int64]


def split_of(person: int) -> str:
    """Persons 1 to 18 to train on, 19 to 24 to choose on, 25 to 30 to measure on."""
    return "train" if person <= 18 else "calibration" if person <= 24 else "test"


def read_recordings(path: Path) -> list[Recording]:
    """All of the pickle. Raises TrainingDataError when it holds anything else."""
    try:
        with gzip.open(path) as file:
            persons = _Reader(file, encoding="latin1").load()
        return [
            _recording(int(person), table)
            for person in sorted(persons)
            for table in persons[person]
        ]
    except (
        OSError,
        EOFError,
        zlib.error,
        pickle.UnpicklingError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:
        raise TrainingDataError(f"{path}: {type(error).__name__}: {error}") from None


def windows(recordings: Sequence[Recording], split: str) -> Windows:
    """Of the persons of `split`: each half overlaps the next, and holds one activity throughout."""
    found = [pair for one in recordings if split_of(one.person) == split for pair in _cut(one)]
    if not found:
        raise TrainingDataError(f"no recordings of the persons to use for {split}")
    readings, labels = zip(*found, strict=True)
    return Windows(samples=np.stack(readings), labels=np.array(labels, dtype=np.int64))


def scaled(readings: NDArray[np.int16]) -> NDArray[np.float32]:
    """As the network takes them, (N, 1, 128, 6): g and rad/s."""
    values = readings[:, np.newaxis] / np.array(COUNTS, dtype=np.float32)
    return values.astype(np.float32)


def _cut(one: Recording) -> Iterator[tuple[NDArray[np.int16], int]]:
    for start in range(0, len(one.labels) - WINDOW + 1, WINDOW // 2):
        labels = one.labels[start : start + WINDOW]
        if 1 <= labels[0] <= len(LABELS) and (labels == labels[0]).all():
            yield one.readings[start : start + WINDOW], int(labels[0]) - 1


def _recording(person: int, table: "_Hollow") -> Recording:
    columns = dict(_columns(table))
    real = np.stack([columns[name] for name in CHANNELS], axis=1)
    counts = np.clip(np.rint(real * COUNTS), -32768, 32767).astype(np.int16)
    return Recording(person=person, readings=counts, labels=columns[_LABEL].astype(np.int64))


def _columns(table: "_Hollow") -> Iterator[tuple[str, NDArray[Any]]]:
    """The columns of a pandas table, out of the state of its block manager."""
    _, values, items, *_ = table.state["_data"].state
    for block, names in zip(values, items, strict=True):
        yield from zip(names.content, block, strict=True)


class _Hollow:
    """Stands for an object of pandas: keeps what it was made of."""

    state: Any = None
    content: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _hollow_index(kind: type, fields: dict[str, Any]) -> _Hollow:
    index = _Hollow()
    index.content = fields.get("data", ())
    return index


def _hollow(*_: Any) -> _Hollow:
    return _Hollow()


def _encoded(text: str, encoding: str) -> bytes:
    """How protocol 2 writes bytes; it knows one encoding."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in {encoding[:16]}")
    return text.encode("latin1")


_ARRAY: Final = np.ndarray((0,)).__reduce__()[0]
_ALLOWED: Final = {
    ("copy_reg", "_reconstructor"): _hollow,
    ("__builtin__", "object"): object,
    ("__builtin__", "slice"): slice,
    ("_codecs", "encode"): _encoded,
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("pandas.core.frame", "DataFrame"): _Hollow,
    ("pandas.core.internals.managers", "BlockManager"): _Hollow,
    ("pandas.core.indexes.base", "_new_Index"): _hollow_index,
    ("pandas.core.indexes.base", "Index"): _Hollow,
    ("pandas.core.indexes.range", "RangeIndex"): _Hollow,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it wants {module}.{name}") from None
