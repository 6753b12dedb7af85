"""`headtail export`: heads for devices that run no ONNX."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from headtail.provision import ensure_bundle
from headtail_fabric.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from headtail_models.mcu.costs import Budget
    from headtail_models.mcu.export import ExitWish, Exported
    from headtail_models.mcu.fidelity import Comparison
    from headtail_models.mcu.layers import Floats, HeadGraph
    from headtail_models.mcu.program import Program
    from headtail_models.mcu.update import SigningKey

_BOARDS: Final = ("rp2040", "rp2350", "esp32-s3", "stm32f4", "stm32f7", "nrf52840")
_LINKS: Final = ("serial", "sealed", "zmtp", "curve")
_COMPARED: Final = 256
_EXAMPLES: Final = """\
examples:
  headtail export mcu spoken-digits --board rp2040 --bits 4 --out digits.head
  headtail export mcu motion --board stm32f4 --link serial --point drop-0 --max-ms 100 --out m.head
  headtail export mcu spoken-digits --board rp2040 --out digits.head --tflite digits.tflite
  headtail export mcu head.onnx --samples calibration.npy --board rp2040 --out digits.head
  headtail export mcu head.onnx --samples calibration.npy --board rp2040 --out digits.head \\
      --bits 4 --exit exit_logits --threshold 0.9 --temperature 1.3 --max-ms 400
  headtail export mcu head.onnx --samples calibration.npy --board rp2350 --out digits.head \\
      --sign release-key.pem --release 4
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser("export", help="make heads for microcontrollers")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    mcu = kinds.add_parser(
        "mcu",
        help="an int8 head for MicroPython boards",
        description="Quantise a head to 8-bit integers, plan its memory, and write the blob that "
        "the firmware runs. A bundle brings all that is needed: its exit, what a value is sent "
        "with, its front end (log-mel spectra of sounds, scaled readings of sensors), and samples; "
        "of an ONNX file you say it. A head that does not fit the board is refused, with each "
        "limit and by how much.",
        epilog=_EXAMPLES,
    )
    mcu.add_argument(
        "model", metavar="MODEL", help="a bundle, or an .onnx file with one input: the head"
    )
    mcu.add_argument(
        "--samples",
        type=Path,
        metavar="FILE",
        help="real inputs (.npy, samples first) to find the ranges of values on (the bundle's)",
    )
    mcu.add_argument("--board", choices=_BOARDS, required=True, help="what it has to fit")
    mcu.add_argument("--out", type=Path, required=True, metavar="FILE", help="where it goes")
    mcu.add_argument(
        "--bits", type=int, choices=(8, 4, 2), default=8, help="of a value that is sent (8)"
    )
    mcu.add_argument(
        "--tflite",
        type=Path,
        metavar="FILE",
        help="write the same numbers as a TensorFlow Lite network, too, for other runtimes",
    )
    mcu.add_argument(
        "--link",
        choices=_LINKS,
        default="curve",
        help="what it shares the memory with: the firmware with the link that the node will have; "
        "sealed is any link with a pre-shared key (curve)",
    )
    mcu.add_argument("--max-ms", type=float, metavar="MS", help="refuse what takes longer")
    cut = mcu.add_argument_group("of a bundle")
    cut.add_argument("--cut", metavar="CUT", help="where the head ends (the bundle's default)")
    cut.add_argument(
        "--point", metavar="POINT", help="how eager the exit is (the bundle's default)"
    )
    leave = mcu.add_argument_group("of an ONNX file: its exit and its answers")
    leave.add_argument(
        "--logits",
        action="append",
        default=[],
        metavar="OUTPUT",
        help="an output that answers and is not sent on; may be repeated",
    )
    leave.add_argument("--exit", metavar="OUTPUT", help="the output that an early exit decides on")
    leave.add_argument("--threshold", type=float, metavar="P", help="how sure it has to be, to 1")
    leave.add_argument("--temperature", type=float, metavar="T", help="logits are over it (1)")
    leave.add_argument(
        "--criterion",
        choices=("max-probability", "margin"),
        help="what the threshold is put on (max-probability)",
    )
    update = mcu.add_argument_group("the update over the air")
    update.add_argument(
        "--sign", type=Path, metavar="PEM", help="RSA key; writes OUT.update and OUT.key, too"
    )
    update.add_argument("--name", metavar="N", help="of the head (OUT's)")
    update.add_argument("--head-version", default="1.0", metavar="V", help="1.0")
    update.add_argument(
        "--release", type=int, default=1, metavar="K", help="above what the nodes have (1)"
    )
    mcu.set_defaults(handler=_mcu)


def _mcu(args: argparse.Namespace) -> int:
    # Needs onnx, and says which extra has it.
    from headtail_models.mcu.boards import BOARDS, LinkKind
    from headtail_models.mcu.costs import budget
    from headtail_models.mcu.fidelity import compare

    key = _key(args)
    of_file = args.model.endswith(".onnx")
    graph, samples, exported = _of_file(args) if of_file else _of_bundle(args)
    spent = budget(
        exported.program,
        BOARDS[args.board],
        link=LinkKind(args.link),
        names=exported.names,
        max_milliseconds=args.max_ms,
    )
    _print_budget(spent)
    spent.check()
    _print_fidelity(compare(graph, exported.program, _spread(samples)))
    _write(args.out, exported.program.blob)
    print(f"{len(exported.program.blob):,} bytes written to {args.out}")
    if args.tflite is not None:
        _write_tflite(args.tflite, exported.program)
    if key is not None:
        _write_update(args, exported.program, key)
    return 0


def _of_file(args: argparse.Namespace) -> "tuple[HeadGraph, Floats, Exported]":
    from headtail_models.mcu.export import export_head
    from headtail_models.mcu.onnx_reader import read_head
    from headtail_models.mcu.samples import read_npy

    if args.cut or args.point:
        raise ConfigError("--cut and --point belong to a bundle; an ONNX file is the head itself")
    if args.samples is None:
        raise ConfigError("an ONNX file needs --samples, real inputs to find ranges on")
    graph = read_head(Path(args.model))
    samples = read_npy(args.samples, graph.input_shape)
    exit_ = _exit(args, graph)
    return (
        graph,
        samples,
        export_head(graph, samples, bits=args.bits, exit=exit_, logits=args.logits),
    )


def _of_bundle(args: argparse.Namespace) -> "tuple[HeadGraph, Floats, Exported]":
    from headtail_models.bundle import open_bundle
    from headtail_models.mcu.cut_reader import SAMPLES, read_cut
    from headtail_models.mcu.export import export_head
    from headtail_models.mcu.samples import read_npy

    own = (args.exit, args.threshold, args.temperature, args.criterion, *args.logits)
    if any(one is not None for one in own):
        raise ConfigError("a bundle knows its exit: --point names how eager it is")
    bundle = open_bundle(ensure_bundle(args.model))
    cut = read_cut(
        bundle, args.cut or bundle.manifest.default_cut, bits=args.bits, point=args.point or ""
    )
    path = args.samples or bundle.path / SAMPLES
    if not path.exists():
        raise ConfigError(f"{bundle.name} brings no samples; name some with --samples")
    samples = read_npy(path, cut.graph.input_shape)
    return (
        cut.graph,
        samples,
        export_head(
            cut.graph,
            samples,
            bits=cut.bits,
            exit=cut.exit,
            ranges=cut.ranges,
            preparation=cut.preparation,
        ),
    )


def _key(args: argparse.Namespace) -> "SigningKey | None":
    from headtail_models.mcu.update import SigningKey

    if args.sign is None:
        return None
    if args.release < 1:
        raise ConfigError(f"--release {args.release}: releases count from 1")
    return SigningKey.read(args.sign)


def _write_tflite(path: Path, program: "Program") -> None:
    from headtail_models.mcu.tflite import tflite_of

    network = tflite_of(program)
    _write(path, network)
    print(f"{len(network):,} bytes written to {path}, without exit and front end")


def _write_update(args: argparse.Namespace, program: "Program", key: "SigningKey") -> None:
    from headtail_models.mcu.update import Release, make_update

    release = Release(
        name=args.name or args.out.stem, version=args.head_version, number=args.release
    )
    path = args.out.with_suffix(".update")
    _write(path, make_update(program, release, key))
    public = args.out.with_suffix(".key")
    _write(public, key.modulus)
    print(f"Update, release {release.number}: {path}")
    print(f"Key {key.id}, that the nodes have to know: {public}")


def _exit(args: argparse.Namespace, graph: "HeadGraph") -> "ExitWish | None":
    from headtail_models.mcu.export import ExitWish
    from headtail_models.mcu.program import CRITERIA, MAX_PROBABILITY

    if args.exit is None:
        if args.threshold is not None:
            raise ConfigError("--threshold without --exit: name the output that it is put on")
        return None
    temperature = 1.0 if args.temperature is None else args.temperature
    if args.threshold is None or not 0 < args.threshold <= 1 or not temperature > 0:
        raise ConfigError("--exit needs --threshold above 0 and up to 1, and a temperature above 0")
    return ExitWish(
        output=args.exit,
        threshold=args.threshold,
        temperature=temperature,
        criterion=CRITERIA[args.criterion or MAX_PROBABILITY],
    )


def _spread(samples: "Floats") -> "Floats":
    return samples[:: max(1, len(samples) // _COMPARED)][:_COMPARED]


def _print_budget(budget: "Budget") -> None:
    table = Table(
        title=f"{budget.board.name} ({budget.board.core}, {budget.board.mhz} MHz); "
        "times are estimates",
        title_justify="left",
    )
    table.add_column("layer", overflow="fold")
    for column in ("leaves", "MAC", "instructions", "ms", "RAM", "flash", "sent"):
        table.add_column(column, justify="right")
    if budget.front is not None:
        front = budget.front
        table.add_row(
            f"{front.name}, a whole patch",
            front.shape,
            "",
            f"{front.instructions:,}",
            f"{budget.front_milliseconds:.1f}",
            f"{front.ram_bytes + front.sensor_bytes:,}",
            end_section=True,
        )
    for index, op in enumerate(budget.ops):
        table.add_row(
            op.name,
            op.shape,
            f"{op.macs:,}",
            f"{op.instructions:,}",
            f"{op.milliseconds:.1f}",
            f"{op.ram_bytes:,}",
            f"{op.flash_bytes:,}",
            f"{op.wire_bytes:,}" if op.wire_bytes else "",
            end_section=index + 1 == budget.exit_ops,
        )
    Console().print(table)
    print(
        f"Together {budget.macs:,} MAC, {budget.instructions:,} instructions, "
        f"about {budget.milliseconds:.0f} ms"
        + (f", {budget.exit_milliseconds:.0f} ms up to the exit" if budget.exit_ops else "")
    )
    for limit in budget.limits:
        print(f"{limit.name}: {limit.need:,.0f} of {limit.has:,.0f} {limit.unit}")


def _print_fidelity(comparison: "Comparison") -> None:
    for output in comparison.outputs:
        line = f"Output {output.name}: {output.error:.2%} off the floating-point network"
        if output.agreement is not None:
            line += f", same answer for {output.agreement:.1%} of the samples"
        print(line)
    if comparison.exits:
        print(f"Exits: {comparison.exits:.1%} of the samples")


def _write(path: Path, blob: bytes) -> None:
    try:
        path.write_bytes(blob)
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror or error}") from None
