"""What a head costs a board."""

from dataclasses import replace

import pytest

from headtail_models.bundle.manifest import LogMel, Signal
from headtail_models.mcu.boards import BOARDS, KIB, RESERVED_BYTES, LinkKind
from headtail_models.mcu.costs import budget
from headtail_models.mcu.errors import DoesNotFitError
from headtail_models.mcu.export import ExitWish, export_head
from headtail_models.mcu.front_costs import FrontCost, front_cost
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.layers import Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.sketch import GraphDrawing
from mcu_graphs import drawn_samples, every_kind

RP2040 = BOARDS["rp2040"]


def test_each_operation_has_its_costs() -> None:
    graph = every_kind()
    wish = ExitWish(output="logits", threshold=0.9)
    exported = export_head(graph, drawn_samples(graph), bits=4, exit=wish)
    spent = budget(exported.program, RP2040, names=exported.names)
    assert [op.name for op in spent.ops] == list(exported.names)
    assert spent.macs == sum(op.macs for op in exported.program.ops)
    assert sum(op.wire_bytes for op in spent.ops) == exported.program.outputs[0].size
    assert sum(op.flash_bytes for op in spent.ops) < len(exported.program.blob)
    assert max(op.ram_bytes for op in spent.ops) <= exported.program.arena
    assert 0 < spent.exit_milliseconds < spent.milliseconds
    spent.check()


def test_it_refuses_with_every_limit_and_by_how_much() -> None:
    graph = GraphDrawing(Shape(1, 1, 100)).convolution(30).end()
    program = export_head(graph, drawn_samples(graph)).program
    heap = RESERVED_BYTES[LinkKind.CURVE] + 1000
    small = replace(RP2040, heap_bytes=heap, flash_bytes=1000)
    need = program.arena + len(program.blob)
    with pytest.raises(DoesNotFitError, match=f"{need - 1000:,} bytes more") as refused:
        budget(program, small).check()
    assert "RAM beside curve" in refused.value.message
    assert "flash" in refused.value.message
    assert "time" not in refused.value.message


def test_links_take_what_they_need_of_the_heap() -> None:
    """A head that fits beside a cable and not beside CURVE."""
    graph = GraphDrawing(Shape(1, 1, 100)).convolution(30).end()
    program = export_head(graph, drawn_samples(graph)).program
    need = program.arena + len(program.blob)
    board = replace(RP2040, heap_bytes=RESERVED_BYTES[LinkKind.SERIAL] + need)
    budget(program, board, link=LinkKind.SERIAL).check()
    for link in (LinkKind.SEALED, LinkKind.ZMTP, LinkKind.CURVE):
        over = RESERVED_BYTES[link] - RESERVED_BYTES[LinkKind.SERIAL]
        assert over > 0
        left = max(0, need - over)
        with pytest.raises(DoesNotFitError) as refused:
            budget(program, board, link=link).check()
        said = f"{need:,} bytes, {need - left:,} bytes more than the {left:,} there are"
        assert f"RAM beside {link.value} {said}" in refused.value.message
    tiny = replace(RP2040, heap_bytes=KIB)
    assert tiny.head_bytes(LinkKind.SERIAL) == 0


def heard() -> tuple[Program, Program]:
    """A head that listens, and the same without its front end."""
    way = LogMel(
        rate=8000,
        window=240,
        hop=160,
        fft=256,
        bands=10,
        low_hz=60.0,
        high_hz=3800.0,
        offset=0.01,
        patch=49,
        patch_hop=25,
    )
    graph = GraphDrawing(Shape(49, 10, 1)).convolution(4, (3, 3), stride=(2, 2)).end()
    samples = drawn_samples(graph) - 3
    return export_head(graph, samples, preparation=way).program, export_head(graph, samples).program


def test_a_front_end_takes_memory_and_time() -> None:
    listening, plain = heard()
    spent, bare = budget(listening, RP2040), budget(plain, RP2040)
    assert bare.front is None
    assert spent.front is not None
    # The ring of levels, the FFT's pairs, a window of samples; 0.75 s of them before it.
    assert spent.front.ram_bytes == 49 * 10 + 4 * 128 + 4 + 2 * 240
    assert spent.front.sensor_bytes == 12_000
    assert spent.instructions == bare.instructions + spent.front.instructions
    assert spent.milliseconds == pytest.approx(bare.milliseconds + spent.front_milliseconds)
    assert spent.front_milliseconds == pytest.approx(49 * 0.225e6 * 1.69 / 125e3, rel=0.03)
    tables = len(listening.blob) - len(plain.blob)
    ram, bare_ram = spent.limits[0].need, bare.limits[0].need
    assert ram - bare_ram == spent.front.ram_bytes + spent.front.sensor_bytes + tables


def test_it_refuses_a_front_end_that_does_not_fit() -> None:
    listening, plain = heard()
    room = plain.arena + len(listening.blob) + 5000
    board = replace(RP2040, heap_bytes=RESERVED_BYTES[LinkKind.CURVE] + room)
    budget(plain, board).check()
    front = front_cost(read_front(listening.front))
    over = front.ram_bytes + front.sensor_bytes - 5000
    with pytest.raises(DoesNotFitError, match=f"RAM beside curve .* bytes, {over:,} bytes more"):
        budget(listening, board).check()
    quick = budget(plain, RP2040).milliseconds + 1
    budget(plain, RP2040, max_milliseconds=quick).check()
    with pytest.raises(DoesNotFitError, match="time"):
        budget(listening, RP2040, max_milliseconds=quick).check()


def test_readings_cost_by_the_channel() -> None:
    def cost(channels: int) -> FrontCost:
        way = Signal(
            rate_hz=50.0,
            window=16,
            hop=8,
            offset=(0.0,) * channels,
            scale=(8192.0,) * channels,
            units="counts",
        )
        graph = GraphDrawing(Shape(16, channels, 1)).convolution(1).end()
        program = export_head(graph, drawn_samples(graph), preparation=way).program
        return front_cost(read_front(program.front))

    for channels, counted in ((1, 15_480), (3, 22_480), (6, 36_600)):
        found = cost(channels)
        assert found.instructions == pytest.approx(16 * counted, rel=0.1)
        assert (found.ram_bytes, found.sensor_bytes) == (16 * channels, 0)


def test_it_refuses_what_takes_too_long() -> None:
    graph = GraphDrawing(Shape(1, 1, 400)).convolution(200).end()
    program = export_head(graph, drawn_samples(graph)).program
    budget(program, RP2040, max_milliseconds=30).check()
    with pytest.raises(DoesNotFitError, match="time"):
        budget(program, RP2040, max_milliseconds=3).check()


def test_faster_boards_are_faster() -> None:
    graph = every_kind()
    program = export_head(graph, drawn_samples(graph)).program
    assert budget(program, BOARDS["stm32f7"]).milliseconds < budget(program, RP2040).milliseconds
