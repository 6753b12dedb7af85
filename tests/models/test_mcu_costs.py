"""What a head costs a board."""

from dataclasses import replace

import pytest

from headtail_models.mcu.boards import BOARDS
from headtail_models.mcu.costs import budget
from headtail_models.mcu.errors import DoesNotFitError
from headtail_models.mcu.export import ExitWish, export_head
from headtail_models.mcu.layers import Shape
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
    small = replace(RP2040, heap_bytes=66_000, flash_bytes=1000, reserved_bytes=65_000)
    need = program.arena + len(program.blob)
    with pytest.raises(DoesNotFitError, match=f"{need - 1000:,} bytes more") as refused:
        budget(program, small).check()
    assert "flash" in refused.value.message
    assert "time" not in refused.value.message


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
