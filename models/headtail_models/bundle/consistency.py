"""Whether the parts of a manifest fit each other, so that nothing fails at the first frame."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from headtail_models.bundle.cut_rules import cut_problems, segment_problems
from headtail_models.bundle.errors import (
    InconsistentManifestError,
    OversizedBundleError,
    UnsafePathError,
)
from headtail_models.bundle.limits import DEFAULT_LIMITS, Limits
from headtail_models.bundle.manifest import (
    INPUT,
    DetectTask,
    LogMel,
    Manifest,
    Preprocess,
)
from headtail_models.bundle.paths import OWN_FILES, check_paths

MAX_TOLD: Final = 8


def check_consistency(manifest: Manifest, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raises InconsistentManifestError that names the contradictions, the first few of them;
    UnsafePathError, DuplicateEntryError or OversizedBundleError for its list of files."""
    _check_files(manifest, limits)
    problems = [
        *_bundle_problems(manifest),
        *_stage_problems(manifest),
        *_input_problems(manifest),
        *segment_problems(manifest),
    ]
    for cut in manifest.cuts:
        problems += [f"cut {cut.name!r}: {problem}" for problem in cut_problems(cut, manifest)]
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
    if isinstance(task, DetectTask):
        wanted = {scale.output: len(scale.anchors) * (5 + labels) for scale in task.scales}
        if not isinstance(manifest.preprocess, Preprocess):
            yield "a detector takes pictures"
    else:
        wanted = {task.output: labels}
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


def _input_problems(manifest: Manifest) -> Iterator[str]:
    way = manifest.preprocess
    if [tensor.shape for tensor in manifest.full.inputs] != [way.input_shape]:
        yield f"the full model's input is not one frame of shape {list(way.input_shape)}"
    if isinstance(way, LogMel):
        try:
            way.front()
        except ValueError as error:
            yield f"preprocess: {error}"
