"""Head and tail as files for two machines, with a note of what crosses."""

from pathlib import Path
from typing import Any, Final

import msgspec

from headtail_fabric.errors import ResourceError
from headtail_fabric.logs import printable
from headtail_models.splitting.agreement import Agreement
from headtail_models.splitting.model import HEAD, TAIL, OnnxModel, Split
from headtail_models.splitting.tensors import Tensor
from headtail_models.splitting.weights import embed_weights, gather_weights, outside_bytes

NOTE: Final = "split.json"
MAX_EMBEDDED_BYTES: Final = 2**28
"""A part with more parameters keeps them in a file of its own beside it."""


class Border(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that crosses. The first axis of `shape` is None where it counts frames; all are
    where the shape depends on what the input holds."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


class SplitNote(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs together. `passed`: inputs of the model that the tail reads, too; `early`:
    outputs of the model that the head has; `difference`: of head and tail to the whole, over each
    output's largest value, on that many `runs`."""

    model: str
    sha256: str
    head: str = HEAD
    tail: str = TAIL
    crossing: tuple[Border, ...]
    passed: tuple[Border, ...]
    early: tuple[str, ...]
    head_macs: int
    tail_macs: int
    runs: int
    difference: float


def write_parts(
    model: OnnxModel, split: Split, agreement: Agreement, folder: Path, *, name: str
) -> SplitNote:
    """Write head.onnx, tail.onnx and split.json into the empty `folder`. Raises ResourceError."""
    by_node = model.macs.by_node
    head_macs = sum(by_node[label] for label in split.cut.head)
    note = SplitNote(
        model=name,
        sha256=model.sha256,
        crossing=tuple(map(_border, split.cut.crossing)),
        passed=tuple(map(_border, split.cut.passed)),
        early=split.cut.early,
        head_macs=head_macs,
        tail_macs=sum(by_node.values()) - head_macs,
        runs=agreement.runs,
        difference=agreement.difference,
    )
    try:
        _write(split.head, model.folder, folder / HEAD)
        _write(split.tail, model.folder, folder / TAIL)
        data = msgspec.json.format(msgspec.json.encode(note), indent=1)
        (folder / NOTE).write_bytes(data + b"\n")
    except OSError as error:
        raise ResourceError(f"{printable(str(folder))}: {error.strerror}") from None
    return note


def _write(part: Any, weights: Path, path: Path) -> None:
    copy = type(part)()
    copy.CopyFrom(part)
    if outside_bytes(copy) <= MAX_EMBEDDED_BYTES:
        embed_weights(copy, weights)
    else:
        gather_weights(copy, weights, path.with_suffix(".weights.bin"))
    path.write_bytes(copy.SerializeToString(deterministic=True))


def _border(tensor: Tensor) -> Border:
    shape: list[int | None] = list(tensor.shape)
    if not tensor.proven:
        shape = [None] * len(shape)
    elif tensor.batched:
        shape[0] = None
    return Border(name=tensor.name, dtype=tensor.dtype, shape=tuple(shape))
