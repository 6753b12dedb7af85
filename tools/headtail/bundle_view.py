"""How a bundle looks on a terminal."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headtail_fabric.codec.affine import AffineCodec
from headtail_fabric.codec.raw import RawCodec
from headtail_fabric.wire import DType
from headtail_models.bundle import Bundle
from headtail_models.bundle.manifest import (
    Coder,
    Cut,
    Filter,
    Gate,
    Preprocess,
)

_BASES: Final = ("raw", "q8", "q4")


def show_bundle(bundle: Bundle) -> None:
    """All that is known of it, on standard output."""
    manifest = bundle.manifest
    for name, value in _facts(bundle):
        print(f"{name:<9} {value}")
    print()
    print_table(
        f"Cuts of {shortened(manifest.full.macs)} multiply-adds; bytes a frame before zstd",
        ("cut", "tensor", "head", "%", "tail", "%", *_BASES),
        (_cut_row(bundle, cut) for cut in manifest.cuts),
        words=2,
    )
    _show_some(
        "Entropy coders; bytes of the coding model",
        ("cut", "codec", "levels", "model", "bytes"),
        [
            (cut.name, codec_id, *_coder_row(bundle, coder))
            for cut in manifest.cuts
            for codec_id, coder in cut.coders.items()
        ],
        words=4,
    )
    _show_some(
        "Gates: where a frame may end; the chosen point of an exit is marked *",
        ("cut", "gate", "at", "decides by", "point", "macs", "threshold", "ends", "drop", "recall"),
        [row for cut in manifest.cuts for gate in cut.gates for row in _gate_rows(cut, gate)],
        words=5,
    )
    _show_some(
        f"Measured on {manifest.metric_split}; bytes are the mean of a frame's payload",
        ("cut", "codec", manifest.metric, "drop", "bytes"),
        [
            (cut.name, one.codec, f"{one.value:.4f}", f"{one.drop:.4f}", f"{one.mean_bytes:,.0f}")
            for cut in manifest.cuts
            for one in cut.measured
        ],
        words=2,
    )


def shortened(count: int) -> str:
    """Three digits and a decimal prefix, a space between them."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {prefix}"
    return f"{count} "


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: int
) -> None:
    """The first `words` columns hold words, the others numbers."""
    table = Table(title=Text(title), title_justify="left")
    for at, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if at < words else "right", overflow="fold")
    for row in rows:
        # As it stands: what a bundle says of itself is not rich's markup.
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _show_some(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: int
) -> None:
    if rows:
        print_table(title, columns, rows, words=words)


def _facts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    manifest = bundle.manifest
    yield "bundle", f"{manifest.name} {manifest.version}"
    yield "about", manifest.description
    yield "digest", bundle.digest.hex()
    yield "signed", f"by {bundle.signed_by.fingerprint}" if bundle.signed_by else "no"
    yield "folder", str(bundle.path)
    way, kind = manifest.preprocess, manifest.task.__struct_config__.tag
    shape = "x".join(map(str, way.input_shape))
    size = f"{way.width}x{way.height} pixels" if isinstance(way, Preprocess) else f"input {shape}"
    yield "task", f"{kind}, {len(manifest.labels)} labels, {size}"
    if manifest.full_value is not None:
        yield "full", f"{manifest.metric} {manifest.full_value:.4f} on {manifest.metric_split}"
    yield "default", f"cut {manifest.default_cut}, codec {manifest.default_codec}"
    for one in manifest.provenance:
        yield "weights", f"{one.source} ({one.licence})"


def _cut_row(bundle: Bundle, cut: Cut) -> tuple[str, ...]:
    head, tail = cut.device_macs, cut.tail.macs
    whole = max(1, head + tail)
    return (
        cut.name,
        "x".join(map(str, cut.tensor.shape)),
        shortened(head),
        f"{100 * head / whole:.1f}",
        shortened(tail),
        f"{100 * tail / whole:.1f}",
        *(_payload_bytes(bundle, cut, base) for base in _BASES),
    )


def _payload_bytes(bundle: Bundle, cut: Cut, base: str) -> str:
    if not any(codec.partition("+")[0] == base for codec in cut.codecs):
        return "-"
    codec = (
        RawCodec(DType[cut.tensor.dtype.upper()])
        if base == "raw"
        else AffineCodec(bits=int(base[1:]), quantiser=bundle.quantiser(cut.name, base))
    )
    return f"{codec.encoded_bytes((1, *cut.tensor.shape)):,}"


def _coder_row(bundle: Bundle, coder: Coder) -> tuple[str, ...]:
    sizes = {entry.path: entry.size_bytes for entry in bundle.manifest.files}
    if coder.bits is not None:
        levels = f"{coder.bits} bits"
    else:
        low, high = min(coder.steps), max(coder.steps)
        levels = f"steps {low:.4g}" + (f" to {high:.4g}" if high > low else "")
    return levels, coder.file, f"{sizes[coder.file]:,}"


def _gate_rows(cut: Cut, gate: Gate) -> Iterator[tuple[str, ...]]:
    """One for a filter, one a point for an exit."""
    place = "x".join(map(str, gate.branch.inputs[0].shape))
    start = (cut.name, gate.name, place)
    macs = shortened(gate.macs)
    if isinstance(gate, Filter):
        share = "" if gate.dropped is None else f"{gate.dropped:.1%}"
        yield (
            *start, "presence", "", macs, f"{gate.threshold:.4f}", share, "", f"{gate.recall:.4f}"
        )  # fmt: skip
        return
    for point in gate.points:
        mark = " *" if point.name == gate.default_point else ""
        yield (
            *start,
            gate.criterion,
            point.name + mark,
            macs,
            f"{point.threshold:.4f}" if point.threshold <= 1 else "closed",
            f"{point.coverage:.1%}",
            f"{point.drop:.4f}",
            "",
        )
