"""The file that holds a head for a board."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.mcu.blob import read_blob
from headtail_models.mcu.errors import BlobError
from headtail_models.mcu.export import ExitWish, export_head
from headtail_models.mcu.program import Program
from headtail_models.mcu.twin import Twin
from mcu_graphs import drawn_samples, every_kind


@pytest.fixture(scope="module")
def program() -> Program:
    graph = every_kind()
    wish = ExitWish(output="logits", threshold=0.9)
    return export_head(graph, drawn_samples(graph), bits=2, exit=wish).program


def test_it_reads_what_it_wrote(program: Program) -> None:
    again = read_blob(program.blob)
    assert again.ops == program.ops
    assert again.outputs == program.outputs
    assert again.exit is not None
    assert program.exit is not None
    assert again.exit.limit == program.exit.limit
    assert (again.exit.exponentials == program.exit.exponentials).all()


def test_damage_is_noticed(program: Program) -> None:
    for at in (4, 100, len(program.blob) // 2, len(program.blob) - 1):
        damaged = bytearray(program.blob)
        damaged[at] ^= 4
        with pytest.raises(BlobError):
            read_blob(bytes(damaged))
    with pytest.raises(BlobError):
        read_blob(program.blob[:-1])
    with pytest.raises(BlobError, match="not a head"):
        read_blob(b"ELF" + program.blob[3:])


@settings(deadline=None, max_examples=100)
@given(at=st.integers(4, 700), value=st.integers(0, 255))
def test_forged_fields_cost_nothing_but_an_error(program: Program, at: int, value: int) -> None:
    """Whatever the header, the outputs, the exit or the first rows say."""
    forged = bytearray(program.blob[:-4])
    forged[at] = value
    blob = bytes(forged) + struct.pack("<I", zlib.crc32(forged))
    try:
        found = read_blob(blob)
    except BlobError:
        return
    assert found.blob == blob


def test_a_row_that_reaches_out_of_the_arena(program: Program) -> None:
    forged = bytearray(program.blob[:-4])
    (rows,) = struct.unpack_from("<I", forged, 40)
    struct.pack_into("<I", forged, rows + 32, program.arena)
    blob = bytes(forged) + struct.pack("<I", zlib.crc32(forged))
    found = read_blob(blob)
    with pytest.raises(BlobError, match="arena"):
        Twin(found).run(drawn_samples(every_kind()))
