"""Bytes and milliseconds of the entropy codes, on tensors as networks make them.

Levels of a detector's features and of their Karhunen-Loève transforms, from photos; models are
fitted on train2017 and measured on val2017. Without photos a synthetic tensor stands in. Times are
process CPU time on one thread, the least of several runs: the machine may be busy.

(Over 400 lines in one module, since each module of this package is a benchmark.)
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import zstandard
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from headtail.bench.report import Report
from headtail.data_folder import DATA, in_data
from headtail.provision import ensure_bundle
from headtail_fabric.codec import TensorCodec
from headtail_fabric.rans import (
    AffineLevels,
    Alphabet,
    CodingModel,
    LevelCoder,
    LevelQuantiser,
    RansCodec,
    StepLevels,
    fit_conv,
    fit_tables,
    specimen,
)
from headtail_fabric.rans.conv_context import ConvContext
from headtail_models import zoo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.task import task_for

PHOTOS: Final = "coco-photos.tar"
_COLUMNS: Final = (
    "code", "bytes", "of plain", "encode ms", "decode ms", "in numpy", "MMAC", "model bytes",
)  # fmt: skip
_TARGET_SHAPE: Final = (12, 52, 52)
_TARGET_CODE: Final = "rANS, table context, 2x2 tiles"
_TURNS: Final = 10
_LATENT_BITS: Final = 1.4
"""Bits a latent by a static table: the step of the transforms' latents is set to that."""
_LATENTS: Final = Alphabet(low=-12, count=25)

Levels = NDArray[np.int16]
Features = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Specimens:
    """One kind of tensor: calibration levels and test tensors (float), each (1, C, H, W)."""

    name: str
    quantiser: LevelQuantiser
    train: list[Levels]
    test: list[Features]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.test[0].shape

    def levels(self) -> list[Levels]:
        """Of the test tensors."""
        return [self.quantiser.levels(tensor) for tensor in self.test]


@dataclass(slots=True, kw_only=True)
class _Row:
    code: str
    bytes: float
    encode_ms: float | None = None
    decode_ms: float | None = None
    numpy_encode_ms: float | None = None
    numpy_decode_ms: float | None = None
    mega_macs: float | None = None
    model_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coded:
    """A code, in C where that was compiled and in numpy, and what to take its times with."""

    row: _Row
    codec: TensorCodec
    in_numpy: TensorCodec
    tensor: Features

    def take_times(self, repeats: int) -> None:
        """Runs the codecs some more; the least times so far stay."""
        payload, row = self.codec.encode(self.tensor), self.row
        for codec, prefix in ((self.codec, ""), (self.in_numpy, "numpy_")):
            encode_ms = _least_ms(partial(codec.encode, self.tensor), repeats)
            decode_ms = _least_ms(partial(codec.decode, payload, self.tensor.shape), repeats)
            times = {f"{prefix}encode_ms": encode_ms, f"{prefix}decode_ms": decode_ms}
            for name, took in times.items():
                setattr(row, name, min(took, getattr(row, name) or took))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", type=Path, metavar="PATH", help="default: yolov3-tiny-coco, built afresh"
    )
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="TAR",
        help=f"default: ${DATA}/{PHOTOS}",
        default=in_data(PHOTOS),
    )
    parser.add_argument("--train", type=int, default=60, help="photos to fit on (default 60)")
    parser.add_argument("--test", type=int, default=40, help="photos to measure on (default 40)")
    parser.add_argument("--repeats", type=int, default=100, help="runs a time (default 100)")
    parser.add_argument(
        "--conv-steps", type=int, default=1500, help="training of the convolution (default 1500)"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to FILE")


def run(options: argparse.Namespace) -> Report:
    report = Report(
        "codec",
        {
            "train": options.train,
            "test": options.test,
            "repeats": options.repeats,
            "conv_steps": options.conv_steps,
            "times": "process CPU, one thread, least of the repeats",
        },
    )
    have_photos = options.photos is not None and options.photos.exists()
    report.settings["tensors"] = "features of photos" if have_photos else "synthetic"
    sections: list[str] = []
    for specimens in _photo_specimens(options) if have_photos else _synthetic_specimens(options):
        rows = _measure(specimens, options)
        _record(report, specimens, rows)
        title, cells = _title(specimens), [_cells(row, rows) for row in rows]
        report.table(title, _COLUMNS, cells)
        sections.append(_markdown(title, cells))
    if not have_photos:
        report.note(f"no photos, a synthetic tensor: name a set with --photos or ${DATA}")
    if options.markdown is not None:
        options.markdown.write_text(_document(report, sections))
    return report


def _bundle(path: Path | None) -> Bundle:
    return open_bundle(path or ensure_bundle(zoo.known()[0]))


def _photo_specimens(options: argparse.Namespace) -> Iterator[_Specimens]:
    photos = CocoPhotos(options.photos)
    bundle = _bundle(options.bundle)
    train = _features(bundle, photos, "train2017", options.train)
    test = _features(bundle, photos, "val2017", options.test)
    for cut, bits in (("L7", 4), ("L5", 4), ("L7", 8)):
        quantiser = bundle.quantiser(cut, f"q{bits}")
        assert quantiser is not None  # every cut of the bundle has both
        scales = AffineLevels(quantiser, bits=bits)
        yield _Specimens(
            name=f"layer {cut[1:]} at {bits} bits",
            quantiser=scales,
            train=[scales.levels(tensor) for tensor in train[cut]],
            test=test[cut],
        )
    for channels, block, name in (
        (12, 1, "layer 5, 12 components a place"),
        (48, 2, "layer 5, 48 components of 2x2 places"),
    ):
        yield _transformed(name, train["L5"], test["L5"], channels, block)


def _features(
    bundle: Bundle, photos: CocoPhotos, split: str, limit: int
) -> dict[str, list[Features]]:
    """What crosses at two cuts, for each photo."""
    task = task_for(bundle.manifest)
    cuts = [cut for cut in bundle.manifest.cuts if cut.name in ("L5", "L7")]
    heads = {cut.name: bundle.open_stage(cut.head, threads=1) for cut in cuts}
    found: dict[str, list[Features]] = {cut.name: [] for cut in cuts}
    console = Console(stderr=True)
    taken = photos.photos(split, limit=limit)
    for photo in track(taken, split, limit, console=console, transient=True):
        image, _ = task.prepare(photo.picture)
        for cut in cuts:
            head = heads[cut.name]
            found[cut.name].append(head.run({head.inputs[0].name: image})[cut.tensor.name])
    return found


def _transformed(
    name: str, train: list[Features], test: list[Features], channels: int, block: int
) -> _Specimens:
    """The first principal components of blocks of places: what a bottleneck starts from."""
    blocks = [_blocks(tensor, block) for tensor in train]
    flat = np.concatenate([tensor[0].reshape(tensor.shape[1], -1)[:, ::5] for tensor in blocks], 1)
    mean = flat.mean(axis=1).reshape(-1, 1, 1)
    _, vectors = np.linalg.eigh(np.cov(flat))
    basis = vectors[:, ::-1][:, :channels].astype(np.float32)

    def project(tensor: Features) -> Features:
        latents: Features = np.einsum("cb,nchw->nbhw", basis, tensor - mean, optimize=True)
        return latents

    latents = [project(tensor) for tensor in blocks]
    low, high = 1e-3, 1e3
    for _ in range(24):
        step = float(np.sqrt(low * high))
        scales = StepLevels(steps=np.full(channels, step, np.float32), alphabet=_LATENTS)
        if _entropy([scales.levels(tensor) for tensor in latents[:12]]) > _LATENT_BITS:
            low = step
        else:
            high = step
    return _Specimens(
        name=name,
        quantiser=scales,
        train=[scales.levels(tensor) for tensor in latents],
        test=[project(_blocks(tensor, block)) for tensor in test],
    )


def _blocks(tensor: Features, block: int) -> Features:
    images, channels, height, width = tensor.shape
    cut = tensor.reshape(images, channels, height // block, block, width // block, block)
    moved = cut.transpose(0, 1, 3, 5, 2, 4)
    return moved.reshape(images, channels * block * block, height // block, width // block)


def _entropy(levels: list[Levels]) -> float:
    """Bits a level by one histogram a channel."""
    by_channel = np.concatenate(levels).swapaxes(0, 1)
    bits = 0.0
    for values in by_channel:
        counts = np.unique(values, return_counts=True)[1]
        bits -= float((counts * np.log2(counts / counts.sum())).sum())
    return bits / by_channel.size


def _synthetic_specimens(options: argparse.Namespace) -> Iterator[_Specimens]:
    scales = StepLevels(steps=np.ones(_TARGET_SHAPE[0], np.float32), alphabet=_LATENTS)
    made = [
        specimen.levels((1, *_TARGET_SHAPE), _LATENTS, seed=seed)
        for seed in range(options.train + options.test)
    ]
    yield _Specimens(
        name="synthetic",
        quantiser=scales,
        train=made[: options.train],
        test=[scales.values(levels) for levels in made[options.train :]],
    )


def _measure(specimens: _Specimens, options: argparse.Namespace) -> list[_Row]:
    alphabet, levels = specimens.quantiser.alphabet, specimens.levels()
    plain = _packed(levels[0], alphabet)
    rows = [_Row(code="plain bits", bytes=len(plain))]
    for name, compress in _rivals(alphabet).items():
        sizes = [len(compress(tensor)) for tensor in levels]
        encode_ms = _least_ms(partial(compress, levels[0]), max(3, options.repeats // 20))
        rows.append(_Row(code=name, bytes=float(np.mean(sizes)), encode_ms=encode_ms))
    coded = [
        _coded(name, model, specimens)
        for name, model in _models(specimens, options.conv_steps).items()
    ]
    # In turns, so that a busy spell of the machine does not hit one of them alone.
    for _ in range(_TURNS):
        for one in coded:
            one.take_times(max(1, options.repeats // _TURNS))
    return rows + [one.row for one in coded]


def _models(specimens: _Specimens, conv_steps: int) -> dict[str, CodingModel]:
    alphabet, train = specimens.quantiser.alphabet, specimens.train
    table = fit_tables.fit(train, alphabet)
    # Many channels see enough in a small window.
    radius = 1 if specimens.shape[1] > 48 else 2
    conv = fit_conv.fit(train, alphabet, fit_conv.Recipe(radius=radius, steps=conv_steps))
    return {
        "rANS, static tables": fit_tables.fit_static(train, alphabet),
        "rANS, table context in the channel": fit_tables.fit(train, alphabet, references=0),
        "rANS, table context": table,
        _TARGET_CODE: replace(table, tiles=(2, 2)),
        "rANS, convolution": conv,
        "rANS, convolution, 2x2 tiles": replace(conv, tiles=(2, 2)),
    }


def _coded(name: str, model: CodingModel, specimens: _Specimens) -> _Coded:
    """One code with its sizes; times are taken with the tensor of middle size."""
    coder, levels = LevelCoder(model), specimens.levels()
    payloads = [coder.encode(tensor) for tensor in levels]
    for tensor, payload in zip(levels, payloads, strict=True):
        if not np.array_equal(coder.decode(payload, tensor.shape), tensor):
            raise RuntimeError(f"{name}: what was decoded is not what was encoded")
    row = _Row(
        code=name,
        bytes=float(np.mean([len(payload) for payload in payloads])),
        mega_macs=_mega_macs(model, specimens.shape),
        model_bytes=len(model.to_bytes()),
    )
    middle = int(np.argsort([len(payload) for payload in payloads])[len(payloads) // 2])
    return _Coded(
        row=row,
        codec=RansCodec(specimens.quantiser, model),
        in_numpy=RansCodec(specimens.quantiser, model, native=False),
        tensor=specimens.test[middle],
    )


def _mega_macs(model: CodingModel, shape: tuple[int, ...]) -> float | None:
    """Of the convolution, for each end."""
    if not isinstance(model.context, ConvContext):
        return None
    return model.context.macs_per_position * shape[2] * shape[3] / 1e6


def _least_ms(function: Callable[[], object], repeats: int) -> float:
    least = float("inf")
    for _ in range(repeats):
        started_at = time.process_time()
        function()
        least = min(least, time.process_time() - started_at)
    return least * 1e3


def _packed(levels: Levels, alphabet: Alphabet) -> bytes:
    """Every level in the same number of bits."""
    values = (levels.reshape(-1) - alphabet.low).astype(np.uint8)
    bits = np.unpackbits(values[:, np.newaxis], axis=1)[:, 8 - alphabet.bits :]
    return np.packbits(bits).tobytes()


def _rivals(alphabet: Alphabet) -> dict[str, Callable[[Levels], bytes]]:
    def bytes_of(levels: Levels) -> bytes:
        return (levels - alphabet.low).astype(np.uint8).tobytes()

    def zstd(level: int) -> Callable[[Levels], bytes]:
        compressor = zstandard.ZstdCompressor(level=level)

        def compress(levels: Levels) -> bytes:
            candidates = (bytes_of(levels), _packed(levels, alphabet))
            return min((compressor.compress(data) for data in candidates), key=len)

        return compress

    def picture(suffix: str, options: Sequence[int]) -> Callable[[Levels], bytes]:
        def compress(levels: Levels) -> bytes:
            # All channels one below the other, grey.
            stacked = (levels - alphabet.low).astype(np.uint8).reshape(-1, levels.shape[-1])
            encoded = cv2.imencode(suffix, stacked, options)[1]
            return bytes(encoded.tobytes())

        return compress

    # A quality above 100 asks OpenCV for the lossless kind of WebP.
    return {
        "zstd 3, better of bytes and packed": zstd(3),
        "zstd 19, better of bytes and packed": zstd(19),
        "PNG, channels stacked": picture(".png", [cv2.IMWRITE_PNG_COMPRESSION, 9]),
        "WebP lossless, channels stacked": picture(".webp", [cv2.IMWRITE_WEBP_QUALITY, 101]),
    }


def _record(report: Report, specimens: _Specimens, rows: list[_Row]) -> None:
    slug = specimens.name.replace(",", "").replace(" ", "_")
    for row in rows:
        code = row.code.replace(",", "").replace(" ", "_").lower()
        report.figure(f"bytes_{slug}_{code}", row.bytes)
        if row.code == _TARGET_CODE and specimens.shape[1:] == _TARGET_SHAPE:
            assert row.encode_ms is not None
            assert row.decode_ms is not None
            report.target("rans_encode_ms", row.encode_ms, "<=", 3)
            report.target("rans_decode_ms", row.decode_ms, "<=", 5)


def _title(specimens: _Specimens) -> str:
    shape = "x".join(map(str, specimens.shape[1:]))
    count = specimens.quantiser.alphabet.count
    return f"{specimens.name}: {shape}, {count} levels, {len(specimens.test)} tensors"


def _cells(row: _Row, rows: list[_Row]) -> list[str]:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    in_numpy = "-"
    if row.numpy_encode_ms is not None:
        in_numpy = f"{row.numpy_encode_ms:.2f} / {row.numpy_decode_ms:.2f}"
    return [
        row.code,
        f"{row.bytes:,.0f}",
        f"{row.bytes / rows[0].bytes:.3f}",
        shown(row.encode_ms, ".2f"),
        shown(row.decode_ms, ".2f"),
        in_numpy,
        shown(row.mega_macs, ".1f"),
        shown(row.model_bytes, ",d"),
    ]


def _markdown(title: str, cells: list[list[str]]) -> str:
    lines = [f"## {title[0].upper()}{title[1:]}", "", f"| {' | '.join(_COLUMNS)} |"]
    lines.append(f"|---|{'---:|' * (len(_COLUMNS) - 1)}")
    lines += [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(lines) + "\n"


def _document(report: Report, sections: list[str]) -> str:
    settings: dict[str, Any] = dict(report.settings)
    targets = [
        f"- `{t.name}` {t.figure:.2f} (target {t.op} {t.target:g}): "
        f"{'met' if t.met else '**missed**'}"
        for t in report.targets
    ]
    head = [
        "# Entropy codes for tensors",
        "",
        "Written by `headtail bench codec --markdown`. Mean bytes a tensor, everything included; "
        "models fitted on other photos than those measured; every payload was decoded and "
        "compared. Times are from float tensor to payload and back: with the coder's kernels in C "
        "where there are any, and in numpy alone (to encode / decode), one payload at a time.",
        "",
        "Settings: " + ", ".join(f"{key} = {value}" for key, value in settings.items()) + ".",
        "",
        *targets,
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(sections)
