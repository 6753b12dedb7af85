"""Whether the parts of a manifest fit each other, so that nothing fails at the first frame."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from headtail_fabric.codec import CodecError, Quantiser, codec_for
from headtail_fabric.wire import DType
from headtail_models.bundle.errors import (
    InconsistentManifestError,
    OversizedBundleError,
    UnsafePathError,
)
from headtail_models.bundle.limits import DEFAULT_LIMITS, Limits
from headtail_models.bundle.manifest import (
    INPUT,
    ClassifyTask,
    Cut,
    Manifest,
    TensorSpec,
)
from headtail_models.bundle.paths import OWN_FILES, check_paths

MAX_TOLD: Final = 8


def check_consistency(manifest: Manifest, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raises InconsistentManifestError that names the contradictions, the first few of them;
    UnsafePathError, DuplicateEntryError or OversizedBundleError for its list of files."""
    _check_files(manifest, limits)
    problems = [*_bundle_problems(manifest), *_stage_problems(manifest)]
    for cut in manifest.cuts:
        problems += [f"cut {cut.name!r}: {problem}" for problem in _cut_problems(cut, manifest)]
    if problems:
        told = "; ".join(problems[:MAX_TOLD])
        more = len(problems) - MAX_TOLD
        raise InconsistentManifestError(
            told + (f"; and {more} more" if more > 0 else ""), problems=tuple(problems)
        )


def _check_files(manifest: Manifest, limits: Limits) -> None:
    check_paths(entry.path for entry in manifest.files)
    for entry in manifest.files:
        if entry.path.casefold() in OWN_FILES:
            raise UnsafePathError(f"the manifest lists {entry.path!r}", path=entry.path)
    total = sum(entry.size_bytes for entry in manifest.files)
    if len(manifest.files) > limits.max_files or total > limits.max_total_bytes:
        raise OversizedBundleError(
            f"{len(manifest.files)} files of {total} bytes; "
            f"{limits.max_files} files of {limits.max_total_bytes} bytes are allowed"
        )


def _bundle_problems(manifest: Manifest) -> Iterator[str]:
    if not manifest.labels:
        yield "there are no labels"
    if manifest.cut(INPUT) is not None:
        yield f"no cut may be called {INPUT!r}"
    names = Counter(cut.name.casefold() for cut in manifest.cuts)
    yield from (
        f"cut {name!r} is there {count} times" for name, count in names.items() if count > 1
    )
    default = manifest.cut(manifest.default_cut)
    if default is None:
        yield f"the default cut {manifest.default_cut!r} is not among the cuts"
    elif manifest.default_codec not in default.codecs:
        yield f"the default codec {manifest.default_codec!r} is not allowed at the default cut"
    yield from _task_problems(manifest)


def _task_problems(manifest: Manifest) -> Iterator[str]:
    labels, task = len(manifest.labels), manifest.task
    if isinstance(task, ClassifyTask):
        wanted = {task.output: labels}
    else:
        wanted = {scale.output: len(scale.anchors) * (5 + labels) for scale in task.scales}
    if not wanted:
        yield "the task has no outputs"
    specs = {spec.name: spec for spec in manifest.full.outputs}
    for name, channels in wanted.items():
        if name not in specs:
            yield f"the full model lacks the task's output {name!r}"
        elif specs[name].shape[:1] != (channels,):
            yield (
                f"output {name!r} has shape {list(specs[name].shape)}, "
                f"the task's labels and anchors need {channels} channels"
            )


def _stage_problems(manifest: Manifest) -> Iterator[str]:
    listed = {entry.path for entry in manifest.files}
    for stage in manifest.stages():
        if "/" in stage.file:
            # Stages find their weights beside themselves.
            yield f"stage {stage.file!r} does not lie at the top"
        if stage.file not in listed:
            yield f"stage {stage.file!r} is not among the files"
        for tensors in (stage.inputs, stage.outputs):
            if not tensors or len({tensor.name for tensor in tensors}) < len(tensors):
                yield f"stage {stage.file!r} lacks a tensor or has one twice"
    picture = (3, manifest.preprocess.height, manifest.preprocess.width)
    if [tensor.shape for tensor in manifest.full.inputs] != [picture]:
        yield f"the full model's input is not one picture of shape {list(picture)}"


def _cut_problems(cut: Cut, manifest: Manifest) -> Iterator[str]:
    if _specs(cut.head.inputs) != _specs(manifest.full.inputs):
        yield "the head's inputs are not the full model's"
    if _specs(cut.tail.outputs) != _specs(manifest.full.outputs):
        yield "the tail's outputs are not the full model's"
    if len(cut.head.outputs) != 1:
        yield f"{len(cut.head.outputs)} tensors cross, not one"
        return
    if _specs(cut.head.outputs) != _specs(cut.tail.inputs):
        yield "the head's output is not the tail's input"
    if not cut.codecs or len(set(cut.codecs)) < len(cut.codecs):
        yield "there is no codec, or one is there twice"
    quantisers: dict[str, Quantiser] = {}
    for base, table in cut.quantisers.items():
        try:
            quantisers[base] = table.quantiser()
        except ValueError as error:
            yield f"quantiser {base!r}: {error}"
            continue
        if quantisers[base].channels != cut.tensor.shape[0]:
            yield (
                f"quantiser {base!r} has {quantisers[base].channels} channels, "
                f"the tensor {cut.tensor.shape[0]}"
            )
    for codec_id in cut.codecs:
        base = codec_id.partition("+")[0]
        try:
            codec_for(
                codec_id, dtype=DType[cut.tensor.dtype.upper()], quantiser=quantisers.get(base)
            )
        except CodecError as error:
            yield f"codec {codec_id!r}: {error}"


def _specs(tensors: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
    return {tensor.name: tensor for tensor in tensors}
