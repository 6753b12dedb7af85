"""`headtail split`: a user's own model in two."""

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headtail.commands.model_words import add_model, add_preparation, preparation, shapes
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.logs import printable
from headtail_models.bundle.errors import TargetNotEmptyError
from headtail_models.bundle.manifest import Preprocess

if TYPE_CHECKING:
    from headtail_models.splitting import OnnxModel, Split
    from headtail_models.splitting.files import SplitNote

BUNDLE: Final = "bundle"
_MAX_LABELS_BYTES: Final = 4 * 2**20
_MAX_SAMPLES: Final = 64
_EXAMPLES: Final = """\
examples:
  headtail split model.onnx --at /layer2/Relu_output_0 --out parts
  headtail split model.onnx --at relu2 --out parts --labels names.txt --samples photos/ \\
      --prepare centre-crop --resize 256 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "split",
        help="cut an ONNX model into head and tail",
        description="Write head.onnx and tail.onnx, checked to compute together what the whole "
        "does, and split.json, which says what crosses. Of a classifier of pictures a bundle is "
        "made as well, that a device and an edge can run.",
        epilog=_EXAMPLES,
    )
    add_model(parser)
    parser.add_argument(
        "--at",
        action="append",
        required=True,
        metavar="TENSOR",
        help="what crosses, as `headtail plan` names it; repeat it where several cross",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="a new or empty folder"
    )
    parser.add_argument(
        "--verify-with", type=Path, metavar="FILE", help="real inputs (.npy) to check on, too"
    )
    bundle = parser.add_argument_group("the bundle")
    bundle.add_argument(
        "--task",
        choices=("auto", "classify", "none"),
        default="auto",
        help="classify: insist on a bundle; none: no bundle (auto: where it can be made)",
    )
    bundle.add_argument("--name", metavar="N", help="its name (the model file's)")
    bundle.add_argument("--bundle-version", default="1.0", metavar="V", help="1.0")
    bundle.add_argument("--labels", type=Path, metavar="FILE", help="a label a line")
    bundle.add_argument("--licence", default="not stated", metavar="TEXT", help="of the weights")
    bundle.add_argument(
        "--samples",
        type=Path,
        metavar="DIR",
        help="pictures or .npy to find the ranges of q8 and q4 on",
    )
    add_preparation(parser)
    parser.set_defaults(handler=_split)


def _split(args: argparse.Namespace) -> int:
    # Needs onnx, and says which extra has it.
    from headtail_models.splitting.files import write_parts
    from headtail_models.splitting.samples import read_samples

    with _new_folder(args.out) as out, tempfile.TemporaryDirectory(prefix="headtail-split-") as top:
        model = _open(args, Path(top))
        cut = model.cut_at(*dict.fromkeys(args.at))
        split = model.split(cut)
        way = _preparation(args, model)
        real = (
            read_samples(args.verify_with, model.specs, prepare=way, limit=_MAX_SAMPLES)
            if args.verify_with is not None
            else ()
        )
        agreement = model.verify(split, [sample.inputs for sample in real])
        note = write_parts(model, split, agreement, out, name=args.model.name)
        _say(note)
        _bundle(args, model, split, out / BUNDLE)
    print(f"Written to {args.out}")
    return 0


def _open(args: argparse.Namespace, top: Path) -> "OnnxModel":
    """The model; its batch axis freed when it is fixed and a bundle needs it free."""
    from headtail_models.splitting import open_model
    from headtail_models.splitting.errors import SplitError
    from headtail_models.splitting.model import check_freed
    from headtail_models.splitting.samples import picture_input

    for name in ("as-it-is", "freed"):
        (top / name).mkdir()
    model = open_model(args.model, top / "as-it-is", shapes=shapes(args))
    spec = picture_input(model.specs)
    if args.task == "none" or spec is None or spec.free_batch:
        return model
    try:
        freed = open_model(args.model, top / "freed", shapes=shapes(args), free_batch=True)
        check_freed(freed, model)
    except SplitError:
        return model  # why there is no bundle is said where it would be made
    return freed


def _preparation(args: argparse.Namespace, model: "OnnxModel") -> Preprocess:
    from headtail_models.splitting.samples import picture_input

    spec = picture_input(model.specs)
    if spec is None:
        return preparation(args)
    return preparation(args, height=spec.shape[2], width=spec.shape[3])


def _bundle(args: argparse.Namespace, model: "OnnxModel", split: "Split", target: Path) -> None:
    from headtail_models.splitting.bundling import (
        BundleWish,
        why_not_bundled,
        write_split_bundle,
    )
    from headtail_models.splitting.samples import read_samples

    if args.task == "none":
        return
    reason = why_not_bundled(model, split)
    if reason is not None and args.task == "auto":
        print(f"No bundle: {printable(reason)}.")
        return
    wish = BundleWish(
        name=args.name or _identifier(args.model.stem),
        version=args.bundle_version,
        preprocess=_preparation(args, model),
        labels=_labels(args.labels),
        licence=args.licence,
        source=printable(args.model.name),
    )
    samples = (
        read_samples(args.samples, model.specs, prepare=wish.preprocess, limit=_MAX_SAMPLES)
        if args.samples is not None
        else ()
    )
    write_split_bundle(model, split, target, wish, samples=samples)
    way = wish.preprocess
    scaled = ", less mean, over std" if way.mean or way.std else ""
    print(f"bundle: {wish.name} {wish.version} in {args.out / BUNDLE}")
    print(f"its pictures: {way.kind} to {way.width}x{way.height}, RGB / 255{scaled}")


def _say(note: "SplitNote") -> None:
    whole = max(1, note.head_macs + note.tail_macs)
    print(f"head: {100 * note.head_macs / whole:.1f} % of {whole:,} multiply-adds")
    for border in (*note.crossing, *note.passed):
        shape = "x".join("N" if size is None else str(size) for size in border.shape)
        print(f"crosses: {printable(border.name)} {border.dtype} {shape}")
    for name in note.early:
        print(f"the head has the output {printable(name)}")
    print(f"head and tail equal the whole on {note.runs} inputs, to {note.difference:.1e}")


def _labels(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_LABELS_BYTES + 1)
        if len(data) > _MAX_LABELS_BYTES:
            raise ConfigError(f"{printable(str(path))} is too long for a list of labels")
        lines = data.decode().splitlines()
    except OSError as error:
        raise ConfigError(f"{printable(str(path))}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{printable(str(path))} is not UTF-8 text") from None
    return tuple(line.strip() for line in lines if line.strip())


def _identifier(stem: str) -> str:
    """A file's name as a bundle may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64] or "model"


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A folder that becomes `target` when all went well, and nothing otherwise."""
    try:
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise TargetNotEmptyError(f"{printable(str(target))} is there and not empty")
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ResourceError(f"{printable(str(target))}: {error.strerror}") from None
    try:
        yield part
        part.chmod(0o755)
        part.rename(target)
    except OSError as error:
        raise ResourceError(f"{printable(str(target))}: {error.strerror}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
