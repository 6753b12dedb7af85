"""What front ends are said to cost, against what an emulated Cortex-M3 counts."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headtail.boards.checkout import compiled, script
from headtail.boards.emulated import EmulatedBoard, find_firmware
from headtail_models.bundle.manifest import LogMel, Preparation, Signal
from headtail_models.mcu.export import export_head
from headtail_models.mcu.front_costs import front_cost
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.layers import Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.sketch import GraphDrawing

BOARD = find_firmware()
pytestmark = [
    pytest.mark.system,
    pytest.mark.long,
    pytest.mark.skipif(
        BOARD is None,
        reason="NOT TESTED ON A CORTEX-M3: `make firmware-qemu` makes an emulated one",
    ),
]
NEEDED = ("__init__", "errors", "frontend", "frontend_py", "frontend_viper")
ROWS = 20


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBoard]:
    assert BOARD is not None
    modules = compiled("armv7m", tmp_path_factory.mktemp("armv7m"))
    with EmulatedBoard(BOARD) as board:
        board.put({name: data for name, data in modules.items() if Path(name).stem in NEEDED})
        yield board


def counted(board: EmulatedBoard, program: Program) -> dict[str, int]:
    """Instructions by step."""
    board.put({"a.head": program.blob})
    printed = board.run(script("count_front.py").read_text(), timeout_s=60)
    return {name: int(count) for name, count in (line.split() for line in printed.splitlines())}


def head_of(way: Preparation, width: int) -> Program:
    graph = GraphDrawing(Shape(ROWS, width, 1)).convolution(1).end()
    samples = np.random.default_rng(0).uniform(-8, 2, (4, ROWS, width, 1)).astype(np.float32)
    return export_head(graph, samples, preparation=way).program


@pytest.mark.parametrize(
    ("window", "fft", "bands", "rate"),
    [(240, 256, 10, 8000), (400, 512, 40, 16_000), (128, 128, 10, 8000)],
)
def test_spectra(board: EmulatedBoard, window: int, fft: int, bands: int, rate: int) -> None:
    way = LogMel(
        rate=rate,
        window=window,
        hop=window // 2,
        fft=fft,
        bands=bands,
        low_hz=60.0,
        high_hz=0.475 * rate,
        offset=0.01,
        patch=ROWS,
        patch_hop=10,
    )
    program = head_of(way, bands)
    spectrum = counted(board, program)["spectrum"]
    said = front_cost(read_front(program.front)).instructions / ROWS
    assert said == pytest.approx(spectrum, rel=0.05)


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_readings(board: EmulatedBoard, channels: int) -> None:
    way = Signal(
        rate_hz=50.0,
        window=ROWS,
        hop=10,
        offset=(0.0,) * channels,
        scale=(8192.0,) * channels,
        units="counts",
    )
    program = head_of(way, channels)
    said = front_cost(read_front(program.front)).instructions / ROWS
    assert said == pytest.approx(counted(board, program)["reading"], rel=0.1)
