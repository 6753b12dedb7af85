"""Every method on every sample, with what was measured before taken from the store."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from headtail_models import entrance
from headtail_models.bundle import Bundle
from headtail_models.bundle.manifest import DetectTask, Manifest, TagTask, encode_manifest
from headtail_models.rate.classifier import ClassifierJudge
from headtail_models.rate.curve import Place
from headtail_models.rate.detector import DetectorJudge
from headtail_models.rate.errors import RateError
from headtail_models.rate.method import Method, Whole
from headtail_models.rate.samples import Sample, fingerprint
from headtail_models.rate.store import Results, Store, digest_of
from headtail_models.rate.tagger import TaggerJudge
from headtail_models.rate.tally import Answer, Judge, Tally, Weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point:
    """A method's payload bytes (P,) and answers on P samples; `cut` and `codec` as a method
    has them."""

    family: str
    setting: str
    cut: str
    codec: str
    sizes: NDArray[np.int64]
    tally: Tally

    def mean_bytes(self) -> float:
        return float(self.sizes.mean())

    def agreement(self) -> float:
        """With the full model, on all samples."""
        return float(self.tally.agreement(self._all)[0])

    def measures(self) -> dict[str, float]:
        """What else there is to say, on all samples."""
        return {name: float(values[0]) for name, values in self.tally.measures(self._all).items()}

    def place(self) -> Place:
        """Where it lies on the curve of agreement."""
        return Place(size_bytes=self.mean_bytes(), accuracy=self.agreement())

    @property
    def _all(self) -> Weights:
        return np.ones((1, len(self.sizes)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """`full`: what there is to say of the full network; `stored_bytes`: the mean size of the
    samples' files."""

    samples: int
    stored_bytes: float
    full: dict[str, float]
    points: tuple[Point, ...]

    def families(self) -> dict[str, list[Point]]:
        """The points by curve, in the order they came."""
        found: dict[str, list[Point]] = {}
        for point in self.points:
            found.setdefault(point.family, []).append(point)
        return found


def judge_for(bundle: Bundle) -> Judge:
    """What a bundle's answers are judged by."""
    manifest = bundle.manifest
    if isinstance(manifest.task, DetectTask):
        return DetectorJudge(manifest)
    if isinstance(manifest.task, TagTask):
        return TaggerJudge(manifest.task)
    return ClassifierJudge(manifest)


class Evaluator:
    """Keeps the samples of a report split in memory: some hundred photos."""

    def __init__(self, bundle: Bundle, samples: Iterable[Sample], whole: Whole) -> None:
        """Runs the full network on every sample. Raises RateError without samples."""
        self._samples = list(samples)
        if not self._samples:
            raise RateError("there is no sample to measure on")
        self._judge = judge_for(bundle)
        self._entrance = entrance.entrance_for(bundle.manifest)
        self._bundle = _function_of(bundle.manifest)
        self._reference = [self._full(sample, whole) for sample in self._samples]
        task = msgspec.json.encode((bundle.manifest.task, bundle.manifest.preprocess)).decode()
        self._network = f"{digest_of(self._reference)} {task}"
        self._data = fingerprint(iter(self._samples))

    def evaluate(
        self,
        methods: Sequence[Method],
        store: Store,
        *,
        versions: Mapping[str, str],
        progress: Callable[[int], None] = lambda _: None,
    ) -> Evaluation:
        """Measures what the store lacks; `progress` hears of every method that is done.

        `versions` of the software that codes pictures is part of a result's key.
        """
        points = []
        for method in methods:
            key = self._key(method, versions)
            results = store.read(key)
            if results is None:
                results = self._run(method)
                store.write(key, results)
            points.append(
                Point(
                    family=method.family,
                    setting=method.setting,
                    cut=method.cut,
                    codec=method.codec_id,
                    sizes=results.sizes,
                    tally=self._tally(results.answers),
                )
            )
            progress(len(points))
        return Evaluation(
            samples=len(self._samples),
            stored_bytes=float(np.mean([sample.file_bytes for sample in self._samples])),
            full={
                name: float(values[0])
                for name, values in self._tally(self._reference)
                .measures(np.ones((1, len(self._samples))))
                .items()
            },
            points=tuple(points),
        )

    def _run(self, method: Method) -> Results:
        sizes, answers = [], []
        for sample in self._samples:
            sent = method.send(sample.frame)
            sizes.append(sent.size_bytes)
            answers.append(self._judge.read(sent.outputs, self._place(sample.frame)))
        return Results(sizes=np.array(sizes, dtype=np.int64), answers=tuple(answers))

    def _full(self, sample: Sample, whole: Whole) -> Answer:
        tensor, place = self._entrance.prepare(sample.frame)
        return self._judge.read(whole(tensor), place)

    def _place(self, frame: entrance.Frame) -> entrance.Place:
        return self._entrance.geometry(*frame.shape[:2]) if frame.ndim > 1 else None

    def _tally(self, answers: Sequence[Answer]) -> Tally:
        return self._judge.tally(
            answers, self._reference, [sample.truth for sample in self._samples]
        )

    def _key(self, method: Method, versions: Mapping[str, str]) -> dict[str, str]:
        # A picture goes through the full network alone: a new bundle with the same network in it
        # changes nothing for it.
        scope = self._bundle if method.cut else f"{self._network} {dict(versions)}"
        # What was trained beside the bundle joins its network.
        scope += method.origin
        return {
            "scope": scope,
            "family": method.family,
            "setting": method.setting,
            "data": self._data,
        }


def _function_of(manifest: Manifest) -> str:
    """Stands for all that a bundle computes, not for what is written in it of measurements."""
    bare = replace(
        manifest,
        cuts=tuple(replace(cut, measured=()) for cut in manifest.cuts),
        full_value=None,
        metric="",
        metric_split="",
    )
    return hashlib.sha256(encode_manifest(bare)).hexdigest()
