"""The file that holds a head for a board.

All numbers little-endian, every section at a multiple of 4.

    header   64 B   magic, total size, arena size, counts, input geometry, places of the sections
    outputs  24 B each
    exit     8 + 512 B, where the head has one
    ops      64 B each
    data     of each op: 8 B a channel (bias i32, multiplier u16, drop u8, shift u8), weights u8
    front    what turns samples into the input's levels, where the head has a front end
    crc32    4 B, of everything before
"""

import math
import struct
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from headtail_models.mcu.errors import BlobError
from headtail_models.mcu.layers import Shape
from headtail_models.mcu.program import (
    EXPONENTIALS,
    Criterion,
    Exit,
    Op,
    OpKind,
    Output,
    Program,
    Role,
)
from headtail_models.mcu.ranges import Quantiser

MAGIC: Final = b"HTM1"
MAX_BYTES: Final = 16 * 2**20
MAX_OPS: Final = 512
MAX_OUTPUTS: Final = 8
OP_BYTES: Final = 64

_HEADER: Final = struct.Struct("<4sIIHHB3xIHHHBxfIIIII8x")
_OUTPUT: Final = struct.Struct("<BBBxHHHxxIIf")
_EXIT: Final = struct.Struct("<BBHI")
_EXIT_BYTES: Final = _EXIT.size + 2 * EXPONENTIALS
_OP: Final = struct.Struct("<12B6H10I")
_ZEROS: Final = ("z_in", "z_in2", "z_out", "low", "high")
_WORDS: Final = ("src", "src2", "dst", "scratch", "data", "k", "shift", "m1", "m2", "crc")
_CHECKSUM: Final = struct.Struct("<I")


def data_offset(*, ops: int, outputs: int, has_exit: bool) -> int:
    """Where the data of such a blob begins."""
    return _HEADER.size + outputs * _OUTPUT.size + has_exit * _EXIT_BYTES + ops * OP_BYTES


def write_blob(
    *,
    arena: int,
    input_shape: Shape,
    input_offset: int,
    input_quantiser: Quantiser,
    ops: Sequence[Op],
    outputs: Sequence[Output],
    exit: Exit | None,
    seed: int,
    data: bytes,
    front: bytes = b"",
) -> bytes:
    """The bytes of a head whose ops count on `data` to begin at `data_offset`. `data` and `front`
    are multiples of 4 bytes."""
    ops_at = data_offset(ops=0, outputs=len(outputs), has_exit=exit is not None)
    front_at = ops_at + len(ops) * OP_BYTES + len(data)
    header = _HEADER.pack(
        MAGIC,
        front_at + len(front) + _CHECKSUM.size,
        arena,
        len(ops),
        exit.ops if exit else 0,
        len(outputs),
        input_offset,
        *input_shape,
        input_quantiser.zero,
        input_quantiser.scale,
        seed,
        ops_at,
        _HEADER.size,
        _HEADER.size + len(outputs) * _OUTPUT.size if exit else 0,
        front_at if front else 0,
    )
    rows = (_op_bytes(op) for op in ops)
    parts = (header, *map(_output_bytes, outputs), _exit_bytes(exit), *rows, data, front)
    body = b"".join(parts)
    return body + _CHECKSUM.pack(zlib.crc32(body))


def read_blob(blob: bytes) -> Program:
    """Raises BlobError. Whether an op stays within its arena is for whoever runs it to check."""
    if not _HEADER.size + _CHECKSUM.size <= len(blob) <= MAX_BYTES or blob[:4] != MAGIC:
        raise BlobError("not a head for microcontrollers")
    if _CHECKSUM.pack(zlib.crc32(blob[:-4])) != blob[-4:]:
        raise BlobError("the checksum is wrong")
    (_, total, arena, op_count, exit_ops, output_count, input_offset, *geometry) = (
        _HEADER.unpack_from(blob)
    )
    h, w, c, zero, scale, seed, ops_at, outputs_at, exit_at, front_at = geometry
    behind = data_offset(ops=0, outputs=output_count, has_exit=False)
    places = _HEADER.size, behind + _EXIT_BYTES * (exit_at != 0), behind * (exit_at != 0)
    if (outputs_at, ops_at, exit_at) != places or op_count > MAX_OPS or output_count > MAX_OUTPUTS:
        raise BlobError(f"{op_count} operations and {output_count} outputs at {ops_at}")
    if total != len(blob) or ops_at + op_count * OP_BYTES + _CHECKSUM.size > total:
        raise BlobError(f"{len(blob)} bytes, {total} announced")
    if front_at and not ops_at + op_count * OP_BYTES <= front_at < total - _CHECKSUM.size:
        raise BlobError(f"a front end at {front_at} of {total} bytes")
    outputs = tuple(
        _output(blob[at : at + _OUTPUT.size])
        for at in range(outputs_at, outputs_at + output_count * _OUTPUT.size, _OUTPUT.size)
    )
    return Program(
        arena=arena,
        input_shape=Shape(h, w, c),
        input_offset=input_offset,
        input_quantiser=Quantiser(scale=_scale(scale), zero=zero),
        ops=tuple(
            _op(blob[at : at + OP_BYTES])
            for at in range(ops_at, ops_at + op_count * OP_BYTES, OP_BYTES)
        ),
        outputs=outputs,
        exit=_exit(blob[exit_at:], exit_ops, outputs) if exit_at else None,
        seed=seed,
        front=blob[front_at:-4] if front_at else b"",
        blob=blob,
    )


def _op_bytes(op: Op) -> bytes:
    return _OP.pack(
        op.kind,
        *(getattr(op, name) for name in _ZEROS),
        *(*op.kernel, *op.stride, *op.origin),
        *(*op.source, *op.shape),
        *(getattr(op, name) for name in _WORDS),
    )


def _op(row: bytes) -> Op:
    fields = _OP.unpack(row)
    if fields[0] not in set(OpKind):
        raise BlobError(f"operation {fields[0]} is not known")
    return Op(
        kind=OpKind(fields[0]),
        kernel=fields[6:8],
        stride=fields[8:10],
        origin=fields[10:12],
        source=Shape(*fields[12:15]),
        shape=Shape(*fields[15:18]),
        **dict(zip(_ZEROS, fields[1:6], strict=True)),
        **dict(zip(_WORDS, fields[18:28], strict=True)),
    )


def _output_bytes(output: Output) -> bytes:
    quantiser = output.quantiser
    return _OUTPUT.pack(
        output.role,
        quantiser.bits,
        quantiser.zero,
        *output.shape,
        output.offset,
        output.size,
        quantiser.scale,
    )


def _output(row: bytes) -> Output:
    role, bits, zero, h, w, c, offset, size, scale = _OUTPUT.unpack(row)
    if role not in set(Role) or bits not in (2, 4, 8):
        raise BlobError(f"output of role {role} with {bits} bits a value")
    return Output(
        role=Role(role),
        shape=Shape(h, w, c),
        offset=offset,
        size=size,
        quantiser=Quantiser(scale=_scale(scale), zero=zero, bits=bits),
    )


def _exit_bytes(exit: Exit | None) -> bytes:
    if exit is None:
        return b""
    fields = _EXIT.pack(exit.criterion, exit.output, 0, exit.limit)
    return fields + exit.exponentials.astype("<u2").tobytes()


def _exit(section: bytes, ops: int, outputs: Sequence[Output]) -> Exit:
    criterion, output, _, limit = _EXIT.unpack_from(section)
    if criterion not in set(Criterion) or output >= len(outputs) or ops < 1:
        raise BlobError(f"exit by criterion {criterion} on output {output} after {ops} operations")
    return Exit(
        ops=ops,
        output=output,
        criterion=Criterion(criterion),
        limit=limit,
        exponentials=np.frombuffer(section, "<u2", EXPONENTIALS, _EXIT.size).astype(np.uint16),
    )


def _scale(scale: float) -> float:
    if not (math.isfinite(scale) and scale > 0):
        raise BlobError(f"scale {scale}")
    return scale
