"""What the firmware costs a microcontroller, and how fast it is on this machine's MicroPython.

Instructions are counted on an emulated Cortex-M3 (QEMU, exact and the same on every machine) where
`firmware/emulated/build.sh` has made one; without it the exporter's estimate stands in, as it says.
Milliseconds on boards are estimates from those; nothing was measured on silicon. Links are
MicroPython's unix port with a heap of 192 KiB against libzmq on loopback.
"""

import argparse
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import zmq
import zmq.utils.z85
from rich.progress import Progress

from headtail.bench.report import Cell, Report
from headtail.boards import heads
from headtail.boards.checkout import compiled, find_natmod, micropython, script
from headtail.boards.counting import Counted, Counter
from headtail.boards.emulated import find_firmware
from headtail.boards.tflm import has_tflm, tflm_arena
from headtail_models.mcu.boards import BOARDS, Board
from headtail_models.mcu.costs import THUMB, instructions_of
from headtail_models.mcu.program import OpKind, Program
from headtail_models.mcu.tflite import tflite_of

_HEAP: Final = "192k"
_SCRIPT_S: Final = 300
_SHIPPED: Final = "thumb"
"""What a Cortex-M takes without anybody's compiler; targets are held against it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--emulated",
        type=Path,
        metavar="FOLDER",
        help="where firmware/emulated/build.sh left firmware.elf (default: its own default)",
    )
    parser.add_argument("--repeats", type=int, default=20, help="runs of a head here (default 20)")


def run(options: argparse.Namespace) -> Report:
    firmware = find_firmware(options.emulated)
    report = Report(
        "mcu",
        {
            "instructions": "QEMU mps2-an385, -icount shift=0" if firmware else "estimate",
            "heap_here": _HEAP,
            "head": "DS-CNN of MLPerf Tiny, 49x10, 12 words",
            "repeats": options.repeats,
        },
    )
    spotter, dense, depthwise = (
        heads.keyword_spotter(),
        heads.dense_layers(),
        heads.depthwise_layers(),
    )
    with TemporaryDirectory() as folder, Progress(transient=True) as progress:
        task = progress.add_task("mcu", total=1 + len(dense) + len(depthwise) + 4)
        if firmware is not None:
            natmod = find_natmod("armv7m")
            modules = compiled("armv7m", Path(folder) / "board", natmod=natmod)
            with Counter(firmware, modules) as counter:

                def count(program: Program) -> Counted:
                    counted = counter.count(program)
                    progress.advance(task)
                    return counted

                whole = count(spotter)
                layers = [count(program) for program in (*dense, *depthwise)]
            _tell_counted(report, spotter, whole)
            _tell_boards(report, whole)
            for kernels in whole.kernels:
                _tell_layers(report, kernels, [*dense, *depthwise], layers)
        else:
            report.note("No emulated board: firmware/emulated/build.sh makes one.")
            _tell_static(report, spotter)
        here = Path(folder) / "here"
        natmod = find_natmod("x64")
        compiled("x64", here, natmod=natmod)
        if natmod is None:
            report.note("No kernels in C: firmware/natmod/build.sh makes them.")
        _tell_here(report, spotter, here, Path(folder), options.repeats)
        progress.advance(task)
        _tell_links(report, here)
        progress.advance(task, 2)
        _tell_tflm(report, spotter, Path(folder))
        progress.advance(task)
    return report


def _tell_counted(report: Report, program: Program, counted: Counted) -> None:
    rows: list[list[Cell]] = []
    for index, op in enumerate(program.ops):
        cells = [counted.instructions[kernels][index] for kernels in counted.kernels]
        rows.append([f"{op.kind.name.lower()} {op.shape}", op.macs, *cells])
    totals = [sum(counted.instructions[kernels]) for kernels in counted.kernels]
    rows.append(["all", sum(op.macs for op in program.ops), *totals])
    report.table(
        "Instructions of a keyword spotter on a Cortex-M3",
        ["operation", "multiply-adds", *counted.kernels],
        rows,
    )
    report.note(
        f"Heap: {counted.heap_bytes:,} bytes with the modules, the {len(program.blob):,} bytes of "
        f"the head and its arena of {program.arena:,}."
    )
    for kernels, total in zip(counted.kernels, totals, strict=True):
        report.figure(f"kws_minsn_{kernels}_m3", total / 1e6)
    report.target("kws_minsn_m3", sum(counted.instructions[_SHIPPED]) / 1e6, "<=", 70)


def _tell_boards(report: Report, counted: Counted) -> None:
    """A Cortex-M3's instructions stand for every board's, as far as its kernels run there."""
    totals = {kernels: sum(counted.instructions[kernels]) for kernels in counted.kernels}
    rows: list[list[Cell]] = [
        [
            board.name,
            board.core,
            *(
                board.milliseconds(total) if _runs(kernels, board) else None
                for kernels, total in totals.items()
            ),
        ]
        for board in BOARDS.values()
    ]
    report.table(
        "Estimated ms, not measured: instructions x cycles an instruction / clock",
        ["board", "core", *totals],
        rows,
    )


def _runs(kernels: str, board: Board) -> bool:
    """Viper everywhere, assembler on ARM, kernels in C on ARM from v7-M on."""
    return kernels == "viper" or (
        board.has_thumb and (kernels != "c" or board.core != "Cortex-M0+")
    )


def _tell_layers(
    report: Report, kernels: str, programs: Sequence[Program], counted: Sequence[Counted]
) -> None:
    """Least squares over single layers: what a multiply-add costs, and what an output does."""
    dense, outputs, depthwise = [], [], []
    for program, one in zip(programs, counted, strict=True):
        op, total = program.ops[0], one.instructions[kernels][0]
        if op.kind is OpKind.CONVOLUTION:
            pixels = op.shape.h * op.shape.w
            dense.append([op.macs, op.shape.size, pixels * op.k, pixels])
            outputs.append(total)
        else:
            depthwise.append((op, total))
    fitted = np.linalg.lstsq(
        np.array(dense, dtype=float), np.array(outputs, dtype=float), rcond=None
    )
    a_mac, an_output = (float(one) for one in fitted[0][:2])
    with_output = max(total / op.macs for op, total in depthwise)
    alone = max((total - an_output * op.shape.size) / op.macs for op, total in depthwise)
    report.table(
        f"{kernels}: instructions on a Cortex-M3",
        ["a multiply-add of", "instructions"],
        [
            ["a dense layer or convolution", a_mac],
            ["a depthwise 3x3, requantising counted apart", alone],
            ["a depthwise 3x3, all in", with_output],
            ["requantising an output", an_output],
        ],
    )
    names = {
        "dense_insn_per_mac": (a_mac, 15.0),
        "depthwise_insn_per_mac": (alone, 30.0),
        "depthwise_all_insn_per_mac": (with_output, 30.0),
        "requant_insn": (an_output, 200.0),
    }
    for name, (value, target) in names.items():
        if kernels == _SHIPPED:
            report.target(f"{name}_m3", value, "<=", target)
        report.figure(f"{name}_{kernels}_m3", value)


def _tell_static(report: Report, program: Program) -> None:
    counts = [instructions_of(op, THUMB) for op in program.ops]
    rows: list[list[Cell]] = [
        [f"{op.kind.name.lower()} {op.shape}", op.macs, count]
        for op, count in zip(program.ops, counts, strict=True)
    ]
    rows.append(["all", sum(op.macs for op in program.ops), sum(counts)])
    report.table(
        "Instructions of a keyword spotter on a Cortex-M3, as the exporter estimates them",
        ["operation", "multiply-adds", "instructions"],
        rows,
    )
    report.target("kws_minsn_m3", sum(counts) / 1e6, "<=", 70)


def _tell_here(report: Report, program: Program, modules: Path, folder: Path, repeats: int) -> None:
    path = folder / "a.head"
    path.write_bytes(program.blob)
    macs = sum(op.macs for op in program.ops)
    rows: list[list[Cell]] = []
    for line in _lines("time_head.py", path, repeats, modules=modules):
        _, kernels, took_us = line
        rows.append([kernels, float(took_us) / 1000, macs / float(took_us)])
        report.figure(f"here_mmac_per_s_{kernels}", macs / float(took_us))
    report.table(
        "The keyword spotter on MicroPython here (x86-64)",
        ["kernels", "ms", "million multiply-adds/s"],
        rows,
    )


def _tell_links(report: Report, modules: Path) -> None:
    found: dict[str, dict[tuple[str, int], float]] = {}
    for mechanism in ("null", "curve"):
        with _echo(mechanism) as words:
            lines = _lines("time_links.py", *words, modules=modules)
        found[mechanism] = {(what, int(size)): float(us) for what, size, us in lines}
    rows: list[list[Cell]] = [
        ["handshake, ms", *(found[name]["handshake", 0] / 1000 for name in found)]
    ]
    for (what, size), _ in found["null"].items():
        if what == "trip":
            trips = [found[name][what, size] for name in found]
            rows.append([f"round trip of {size:,} bytes, ms", *(one / 1000 for one in trips)])
            rows.append(
                ["  so a second, KiB each way", *(1e6 / one * size / 1024 for one in trips)]
            )
    report.table("ZMTP to libzmq on this machine", ["", *found], rows)
    report.figure("curve_handshake_ms_here", found["curve"]["handshake", 0] / 1000)
    report.figure("zmtp_trip_1k_ms_here", found["null"]["trip", 1024] / 1000)
    report.figure("curve_trip_1k_ms_here", found["curve"]["trip", 1024] / 1000)
    sealed: list[list[Cell]] = [
        [f"{size:,} bytes", found["null"]["seal", size] / 1000, found["null"]["open", size] / 1000]
        for what, size in found["null"]
        if what == "seal"
    ]
    report.table("The envelope of sleepy nodes here", ["", "seal, ms", "open, ms"], sealed)
    report.figure("envelope_seal_1k_ms_here", found["null"]["seal", 1024] / 1000)


def _tell_tflm(report: Report, spotter: Program, folder: Path) -> None:
    """Memory beside TensorFlow Lite Micro's; that both compute the same is for tests to say."""
    if not has_tflm():
        report.note("Not compared with TensorFlow Lite Micro: pip install tflite-micro.")
        return
    programs = {"keyword spotter": spotter}
    programs |= {name: heads.released(name, folder / name) for name in heads.RELEASED}
    rows: list[list[Cell]] = []
    for name, program in programs.items():
        network = tflite_of(program)
        theirs = tflm_arena(network)
        rows.append(
            [
                name,
                program.arena,
                theirs.tensors,
                theirs.tensors + theirs.structures,
                len(program.blob),
                len(network),
            ]
        )
        report.figure(f"arena_of_tflm_{name.replace(' ', '_')}", program.arena / theirs.tensors)
    report.table(
        "Bytes, beside TensorFlow Lite Micro with the same head (its structures as on 64 bits)",
        ["head", "arena", "its tensors", "its arena", "blob", ".tflite"],
        rows,
    )


def _lines(name: str, *words: object, modules: Path) -> Iterator[list[str]]:
    """What a script printed, each line in words."""
    done = subprocess.run(  # noqa: S603 - our own script
        [micropython(), "-X", f"heapsize={_HEAP}", str(script(name)), *map(str, words)],
        env={"MICROPYPATH": f"{modules}:.frozen"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SCRIPT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")
    return (line.split() for line in done.stdout.splitlines())


@contextmanager
def _echo(mechanism: str) -> Iterator[Sequence[object]]:
    """A ROUTER that sends back what comes; gives what `time_links.py` wants to know of it."""
    words: Sequence[object] = ()
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    if mechanism == "curve":
        server, server_secret = zmq.curve_keypair()
        _, node_secret = zmq.curve_keypair()
        router.curve_server, router.curve_secretkey = True, server_secret
        words = [zmq.utils.z85.decode(key).hex() for key in (server, node_secret)]
    port = router.bind_to_random_port("tcp://127.0.0.1")
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            if router.poll(50):
                router.send_multipart(router.recv_multipart())
        router.close(0)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield port, mechanism, *words
    finally:
        done.set()
        thread.join()
        context.destroy(0)
