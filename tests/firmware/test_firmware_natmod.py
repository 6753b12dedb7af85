"""Kernels in C (`make firmware-natmod` makes them): the same bits, and fewer instructions."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headtail.boards import heads
from headtail.boards.checkout import NoFirmwareError, compiled, find_natmod
from headtail.boards.counting import Counter
from headtail.boards.emulated import find_firmware
from headtail_models.mcu.export import ExitWish, export_head
from mcu_graphs import drawn_graph, drawn_samples, every_kind
from micropython_runner import run, tool

pytestmark = pytest.mark.system

BUDGET = 11_300_000
"""Instructions of the keyword spotter, 5 % above what was counted when it was written."""
SIZE = {"x64": 5_000, "armv7m": 3_000, "armv7emsp": 3_000, "armv7emdp": 3_000}
NAMES = "c,viper,python"


def natmod(architecture: str) -> Path:
    found = find_natmod(architecture)
    if found is None:
        pytest.skip(f"KERNELS IN C NOT TESTED: `make firmware-natmod` makes them ({architecture})")
    return found


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The firmware for this machine, kernels in C among it."""
    folder = tmp_path_factory.mktemp("compiled")
    tool("micropython")
    compiled("x64", folder, natmod=natmod("x64"))
    return folder


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    board = find_firmware()
    if board is None:
        pytest.skip("NOT TESTED ON A CORTEX-M3: `make firmware-qemu` makes an emulated one")
    folder = tmp_path_factory.mktemp("armv7m")
    with Counter(board, compiled("armv7m", folder, natmod=natmod("armv7m"))) as counter:
        yield counter


def test_golden_vectors_of_drawn_heads(tmp_path: Path, modules: Path) -> None:
    paths = []
    for seed in range(24):
        graph = drawn_graph(100 + seed)
        paths.append(tmp_path / f"{seed}.head")
        paths[-1].write_bytes(export_head(graph, drawn_samples(graph, seed=seed)).program.blob)
    assert run("golden.py", NAMES, *paths, modules=modules) == "passed 24\n"


def test_forged_heads_are_refused_or_do_no_harm(tmp_path: Path, modules: Path) -> None:
    graph = every_kind()
    wish = ExitWish(output="logits", threshold=0.9)
    program = export_head(graph, drawn_samples(graph), bits=2, exit=wish).program
    (tmp_path / "a.head").write_bytes(program.blob)
    output = run("forged_heads.py", tmp_path / "a.head", modules=modules)
    assert re.fullmatch(r"refused \d{3,}, harmless \d+\n", output)


def test_a_module_for_another_processor_is_gone_without(tmp_path: Path, modules: Path) -> None:
    foreign = natmod("armv7m") / "armv7m" / "natmod.mpy"
    graph = drawn_graph(1)
    (tmp_path / "a.head").write_bytes(export_head(graph, drawn_samples(graph)).program.blob)
    package = tmp_path / "headtail_mcu"
    package.mkdir()
    for path in (modules / "headtail_mcu").iterdir():
        (package / path.name).write_bytes(path.read_bytes())
    (package / "natmod.mpy").write_bytes(foreign.read_bytes())
    assert run("golden.py", "viper,python", tmp_path / "a.head", modules=tmp_path) == "passed 1\n"


@pytest.mark.parametrize("architecture", SIZE)
def test_the_module_is_small(architecture: str) -> None:
    path = natmod(architecture) / architecture / "natmod.mpy"
    assert path.stat().st_size <= SIZE[architecture]


@pytest.mark.long
def test_drawn_heads_are_right_to_the_bit_on_a_cortex_m3(counter: Counter) -> None:
    for seed in range(12):
        graph = drawn_graph(300 + seed)
        counted = counter.count(export_head(graph, drawn_samples(graph, seed=seed)).program)
        assert counted.kernels == ("c", "thumb", "viper")


@pytest.mark.long
def test_a_keyword_spotter_takes_fewer_instructions(counter: Counter) -> None:
    counted = counter.count(heads.keyword_spotter())
    assert sum(counted.instructions["c"]) <= BUDGET
    ours, assembler = (np.array(counted.instructions[name]) for name in ("c", "thumb"))
    assert (ours <= assembler * 1.01).all()


def test_there_is_no_module_for_every_processor(tmp_path: Path) -> None:
    with pytest.raises(NoFirmwareError, match=r"natmod\.mpy"):
        compiled("xtensa", tmp_path, natmod=tmp_path)
