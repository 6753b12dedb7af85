"""From a network that was trained for a board to its bundle, and what it is worth.

Whatever a board computes is computed here by its twin in integers, from the sensor's own numbers
on: what the exit's threshold is chosen by, and all accuracies but those called `float`.
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from rich.console import Console

from headtail_fabric.errors import HeadtailError
from headtail_models.bundle import open_bundle, write_bundle
from headtail_models.bundle.codecs import packed_levels
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Cut,
    Exit,
    Manifest,
    Measured,
    OperatingPoint,
    Preparation,
    Provenance,
    encode_manifest,
)
from headtail_models.exits.answers import Answers
from headtail_models.exits.criteria import Criterion
from headtail_models.exits.temperature import fit_temperature
from headtail_models.exits.thresholds import AccuracyBudget, Point, Reached, choose, measure
from headtail_models.mcu.cut_reader import RANGES, SAMPLES, CutHead, read_cut, write_ranges
from headtail_models.mcu.export import export_head
from headtail_models.mcu.features import decode_features
from headtail_models.mcu.fronts import read_front
from headtail_models.mcu.layers import Floats
from headtail_models.mcu.program import Program
from headtail_models.mcu.ranges import Quantiser
from headtail_models.mcu.samples import channels_last
from headtail_models.mcu.twin import Twin
from headtail_models.nets.board_split import BITS, TOP, BoardSplit
from headtail_models.stage import OnnxStage
from headtail_models.training import board_int8
from headtail_models.training.board_findings import Findings, Gained
from headtail_models.training.folding import folded_split
from headtail_models.training.recipe import Recipe, read_recipe
from headtail_models.training.releasing import write_stage
from headtail_models.training.trainer import read_best
from headtail_models.zoo.own_bundle import RECORD, assemble

CUT: Final = "code"
EXIT: Final = "exit"
DEFAULT_BITS: Final = 4
DEFAULT_POINT: Final = "drop-1"
CRITERION: Final[Criterion] = "max-probability"
DROPS: Final = {"drop-2": 0.02, "drop-1": 0.01, "drop-0": 0.0}
"""Operating points from the most eager to the least, and the accuracy that each may cost."""
_KEPT: Final = 128
"""Samples of the training split that go into the bundle."""


class Sensed(Protocol):
    """`samples` (N, ...) as the sensor gives them, int16, and their `labels` (N,)."""

    @property
    def samples(self) -> NDArray[np.int16]: ...

    @property
    def labels(self) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release:
    """What a bundle is made of. `inputs` turns samples of the sensor into what the network takes,
    in floating point."""

    name: str
    description: str
    labels: tuple[str, ...]
    preparation: Preparation
    provenance: Provenance
    split: str
    inputs: Callable[[NDArray[np.int16]], Floats]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """The network, what becomes of it, and the splits. `ranges` as `board_int8` found them, None
    where calibration does."""

    network: BoardSplit
    ranges: tuple[Quantiser, ...] | None = None
    what: Release
    train: Sensed
    calibration: Sensed
    test: Sensed


def release(given: Given, out: Path) -> Findings:
    """Write the released files into `out`. Raises HeadtailError."""
    out.mkdir(parents=True, exist_ok=True)
    what, train = given.what, given.train
    whole = folded_split(given.network)
    shape = what.inputs(train.samples[:1]).shape[1:]
    chosen = np.random.default_rng(0).permutation(len(train.labels))[:_KEPT]
    np.save(out / SAMPLES, what.inputs(train.samples[chosen]).astype(np.float16))
    if given.ranges is None:
        (out / RANGES).unlink(missing_ok=True)
    else:
        write_ranges(out / RANGES, given.ranges)
    manifest = _manifest(whole, what, shape, out)
    _write(manifest, out)
    board = _Board(out, bits=DEFAULT_BITS)
    exit_ = _calibrated(
        manifest.cuts[0].exits()[0], board.run(given.calibration), given.calibration.labels
    )
    manifest = _with_exit(manifest, exit_)
    _write(manifest, out)
    found = _measured(whole, what, given.test, exit_, out)
    cut = replace(
        manifest.cuts[0],
        measured=tuple(
            Measured(
                codec=f"q{bits}-nhwc",
                value=round(found.int_tail[bits], 4),
                drop=round(found.float_full - found.int_tail[bits], 4),
                mean_bytes=found.payload_bytes[bits],
            )
            for bits in BITS
        ),
    )
    _write(replace(manifest, cuts=(cut,), full_value=round(found.float_full, 4)), out)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ran:
    """Logits of the exit and of the tail, (N, classes), and what was sent of each."""

    exit: Floats
    tail: Floats
    payload_bytes: int


class _Board:
    """The bundle's head as a board runs it, and its tail as an edge does."""

    def __init__(self, released: Path, *, bits: int) -> None:
        with tempfile.TemporaryDirectory(prefix="headtail-release-") as folder:
            source = Path(folder) / "source"
            source.mkdir()
            manifest = assemble(released, source)
            bundle = open_bundle(write_bundle(source, manifest, Path(folder) / "bundle"))
            cut = read_cut(bundle, CUT, bits=bits)
            self.program = exported(cut, released / SAMPLES)
        self._front = read_front(self.program.front)
        self._twin = Twin(self.program)
        self._tail = OnnxStage(released / manifest.cuts[0].tail.file)

    def run(self, sensed: Sensed) -> _Ran:
        outcomes = [self._twin.run_levels(self._front.patch_of(one)) for one in sensed.samples]
        logits, code = self.program.outputs
        early = np.stack([logits.quantiser.reals(o.levels[0]).reshape(-1) for o in outcomes])
        codes = np.concatenate([decode_features(code, one.packed[1]) for one in outcomes])
        (name,) = (spec.name for spec in self._tail.inputs)
        (answer,) = self._tail.run({name: codes}).values()
        return _Ran(exit=early, tail=answer, payload_bytes=code.size)


def exported(cut: CutHead, samples: Path) -> Program:
    """The cut as `headtail export mcu` makes it."""
    given = channels_last(np.load(samples).astype(np.float32), cut.graph.input_shape)
    return export_head(
        cut.graph,
        given,
        bits=cut.bits,
        exit=cut.exit,
        ranges=cut.ranges,
        preparation=cut.preparation,
    ).program


def _manifest(whole: BoardSplit, what: Release, shape: tuple[int, ...], out: Path) -> Manifest:
    """With an exit that takes nothing for sure yet."""
    with torch.no_grad():
        near = whole.trunk(torch.zeros(1, *shape))
        code = whole.encoder(near)
    near_shape, code_shape = tuple(near.shape[1:]), tuple(code.shape[1:])
    tables = dict(
        packed_levels(bits=bits, scale=TOP / ((1 << bits) - 1), zero=0, channels=code_shape[0])
        for bits in BITS
    )
    exit_ = Exit(
        name=EXIT,
        trunk=write_stage(whole.trunk, out / "trunk.onnx", shape, inputs="patch", output="near"),
        branch=write_stage(
            whole.branch, out / "branch.onnx", near_shape, inputs="near", output="exit-logits"
        ),
        criterion=CRITERION,
        points=(OperatingPoint(name=DEFAULT_POINT, threshold=1.0, coverage=0.0, drop=0.0),),
        default_point=DEFAULT_POINT,
    )
    full = write_stage(whole, out / "full.onnx", shape, inputs="patch", output="logits")
    cut = Cut(
        name=CUT,
        gates=(exit_,),
        head=write_stage(
            whole.encoder, out / "encoder.onnx", near_shape, inputs="near", output=CUT
        ),
        tail=write_stage(whole.tail, out / "tail.onnx", code_shape, inputs=CUT, output="logits"),
        codecs=(*tables, "raw"),
        quantisers=tables,
    )
    return Manifest(
        schema=SCHEMA,
        name=what.name,
        version="1.0",
        description=what.description,
        task=ClassifyTask(output="logits"),
        labels=what.labels,
        preprocess=what.preparation,
        full=full,
        cuts=(cut,),
        default_cut=CUT,
        default_codec=f"q{DEFAULT_BITS}-nhwc",
        metric="accuracy",
        metric_split=what.split,
        provenance=(what.provenance,),
        files=(),
    )


def _with_exit(manifest: Manifest, exit_: Exit) -> Manifest:
    return replace(manifest, cuts=(replace(manifest.cuts[0], gates=(exit_,)),))


def _write(manifest: Manifest, out: Path) -> None:
    (out / RECORD).write_bytes(encode_manifest(manifest))


def _calibrated(exit_: Exit, ran: _Ran, labels: NDArray[np.int64]) -> Exit:
    """Temperature and operating points, of what the board says of the calibration split."""
    temperature = round(fit_temperature(ran.exit, labels), 3)
    answers = _answers(ran, labels, temperature)
    points: list[OperatingPoint] = []
    floor: tuple[float, ...] | None = None
    for name, drop in DROPS.items():
        # A board saves what it does not compute and does not send: any cost that grows will do.
        outcome = choose(answers, (1.0, 2.0), AccuracyBudget(max_drop=drop), at_least=floor)
        point = outcome.point if isinstance(outcome, Reached) else outcome.nearest
        floor = point.thresholds
        points.append(
            OperatingPoint(
                name=name,
                threshold=point.thresholds[0],
                coverage=round(point.coverage[0], 4),
                drop=round(point.drops[0], 4),
            )
        )
    return replace(exit_, temperature=temperature, points=tuple(points))


def _answers(ran: _Ran, labels: NDArray[np.int64], temperature: float) -> Answers:
    return Answers.of([ran.exit], ran.tail, labels, criterion=CRITERION, temperatures=[temperature])


def _measured(whole: BoardSplit, what: Release, test: Sensed, exit_: Exit, out: Path) -> Findings:
    inputs = torch.from_numpy(what.inputs(test.samples))
    with torch.no_grad():
        full = whole(inputs).numpy()
        floats = {bits: [one.numpy() for one in whole.answers(inputs, bits)] for bits in BITS}
    boards = {bits: _Board(out, bits=bits) for bits in BITS}
    ran = {bits: board.run(test) for bits, board in boards.items()}
    together = []
    for bits in BITS:
        answers = _answers(ran[bits], test.labels, exit_.temperature)
        for point in exit_.points:
            at: Point = measure(answers, (1.0, 2.0), (point.threshold,))
            together.append(
                Gained(
                    point=point.name,
                    bits=bits,
                    accuracy=at.accuracy,
                    coverage=at.coverage[0],
                    sent_bytes=(1 - at.coverage[0]) * ran[bits].payload_bytes,
                )
            )
    program = boards[DEFAULT_BITS].program
    return Findings(
        name=what.name,
        samples=len(test.labels),
        raw_bytes=test.samples[0].nbytes,
        float_full=_accuracy(full, test.labels),
        float_exit=_accuracy(floats[DEFAULT_BITS][0], test.labels),
        float_tail={bits: _accuracy(floats[bits][1], test.labels) for bits in BITS},
        int_exit=_accuracy(ran[DEFAULT_BITS].exit, test.labels),
        int_tail={bits: _accuracy(ran[bits].tail, test.labels) for bits in BITS},
        payload_bytes={bits: ran[bits].payload_bytes for bits in BITS},
        together=tuple(together),
        arena_bytes=program.arena,
        blob_bytes=len(program.blob),
    )


def _accuracy(logits: Floats, labels: NDArray[np.int64]) -> float:
    return float((logits.argmax(axis=1) == labels).mean())


def command(
    name: str, build: Callable[[Recipe, Path, Path], Given], arguments: Sequence[str] | None
) -> int:
    """Run the release of bundle `name` from the command line. `build` gets the recipe, the data's
    folder and one for features."""
    parser = argparse.ArgumentParser(description=f"Release {name}.")
    parser.add_argument("--recipe", default=name, help=f"that was trained by ({name})")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="of the features")
    parser.add_argument("--trained", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="released/BUNDLE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what was found, as numbers")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        given = _trained(read_recipe(options.recipe), options, build)
        findings = release(given, options.out)
    except HeadtailError as error:
        console.print(f"{error}\n{error.advice}", style="red", markup=False)
        return 1
    text = msgspec.json.format(msgspec.json.encode(findings), indent=1)
    console.print(text.decode(), markup=False, highlight=False)
    if options.json is not None:
        options.json.write_bytes(text + b"\n")
    return 0


def _trained(
    recipe: Recipe, options: argparse.Namespace, build: Callable[[Recipe, Path, Path], Given]
) -> Given:
    rounds = recipe.job == board_int8.JOB
    base = board_int8.base_of(recipe) if rounds else recipe
    given = build(base, options.data, options.cache)
    weights = read_best(options.trained)
    if not rounds:
        given.network.load_state_dict(weights)
        return given
    sample = torch.from_numpy(given.what.inputs(given.train.samples[:1]))
    network, ranges = board_int8.settled_split(given.network, sample, weights)
    return dataclasses.replace(given, network=network, ranges=ranges)
