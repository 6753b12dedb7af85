"""Methods, the store, and the whole measurement on the tiny bundle."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from headtail_models.entrance import Frame, entrance_for, pictures_of
from headtail_models.rate.block import block_crossing, block_methods
from headtail_models.rate.comparison import Bootstrap, best_of, bytes_of, compare
from headtail_models.rate.curve import Place, bytes_at
from headtail_models.rate.cut import (
    Crossing,
    CutTensor,
    cut_crossing,
    cut_methods,
    natural_crossings,
    natural_methods,
)
from headtail_models.rate.errors import RateError
from headtail_models.rate.evaluation import Evaluation, Evaluator, Point
from headtail_models.rate.fitted import fitted_method
from headtail_models.rate.method import Method, Sent, whole_network
from headtail_models.rate.picture import NativePicture, ViewedPicture, picture_methods
from headtail_models.rate.samples import Sample, file_for, fingerprint
from headtail_models.rate.store import Results, Store
from headtail_models.rate.tally import Tally, Values, Weights, mean
from headtail_models.rate.view import Viewer


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("rate")
    return open_bundle(write_specimen(folder / "specimen", gated=True))


def _samples(count: int) -> list[Sample]:
    random = np.random.default_rng(5)
    return [
        Sample(
            name=str(at),
            file_bytes=1000,
            frame=random.integers(0, 256, (40, 48, 3), dtype=np.uint8),
            truth=at % 3,
        )
        for at in range(count)
    ]


@dataclass(slots=True, eq=False)
class _Counting:
    """A method that says how often it was asked."""

    inner: Method
    asked: list[int] = field(default_factory=list)

    @property
    def family(self) -> str:
        return self.inner.family

    @property
    def setting(self) -> str:
        return self.inner.setting

    @property
    def cut(self) -> str:
        return self.inner.cut

    @property
    def codec_id(self) -> str:
        return self.inner.codec_id

    @property
    def origin(self) -> str:
        return self.inner.origin

    def send(self, frame: Frame) -> Sent:
        self.asked.append(1)
        return self.inner.send(frame)


def _evaluated(bundle: Bundle, methods: Sequence[Method], folder: Path) -> Evaluation:
    whole = whole_network(bundle.open_stage(bundle.full()))
    evaluator = Evaluator(bundle, _samples(4), whole)
    return evaluator.evaluate(methods, Store(folder), versions={"jpg": "1"})


def test_every_cut_and_codec_of_a_bundle(bundle: Bundle, tmp_path: Path) -> None:
    crossings = list(natural_crossings(bundle, cuts=None, threads=1))
    methods = [
        *cut_methods(bundle, cuts=None, threads=1),
        *natural_methods(bundle, crossings),
    ]
    coded = [cut for cut in bundle.manifest.cuts if cut.coders]
    plain = [cut for cut in bundle.manifest.cuts if not cut.coders]
    assert {method.family for method in methods if method.family.startswith("cut")} == {
        f"cut {cut.name}, rans" for cut in coded
    }
    assert len(methods) == sum(len(cut.coders) for cut in coded) + sum(
        codec.endswith("+zstd") for cut in plain for codec in cut.codecs
    )
    evaluation = _evaluated(bundle, methods, tmp_path)
    exact = [point for point in evaluation.points if point.family == "natural cuts, raw+zstd"]
    assert all(point.agreement() == 1.0 for point in exact)
    assert evaluation.full == {"top-1": evaluation.full["top-1"], "top-5": 1.0}
    assert evaluation.stored_bytes == 1000


def test_what_was_measured_is_not_measured_again(bundle: Bundle, tmp_path: Path) -> None:
    viewer = Viewer(pictures_of(bundle.manifest))
    whole = whole_network(bundle.open_stage(bundle.full()))
    method = _Counting(NativePicture(codec="jpeg", quality=50, viewer=viewer, whole=whole))
    first = _evaluated(bundle, [method], tmp_path)
    again = _evaluated(bundle, [method], tmp_path)
    assert len(method.asked) == 4
    assert again.points[0].sizes.tolist() == first.points[0].sizes.tolist()
    assert again.points[0].measures() == first.points[0].measures()
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    _evaluated(bundle, [method], tmp_path)
    assert len(method.asked) == 8


def test_a_fresh_store_reads_nothing(tmp_path: Path) -> None:
    results = Results(sizes=np.array([3]), answers=(np.ones((2, 6), dtype=np.float32),))
    Store(tmp_path).write({"a": "b"}, results)
    found = Store(tmp_path).read({"a": "b"})
    assert found is not None
    assert found.sizes.tolist() == [3]
    assert [answer.shape for answer in found.answers] == [(2, 6)]
    assert Store(tmp_path).read({"a": "c"}) is None
    assert Store(tmp_path, fresh=True).read({"a": "b"}) is None


def test_answers_without_rows_are_kept(tmp_path: Path) -> None:
    answers = tuple(np.zeros((rows, 6), dtype=np.float32) for rows in (0, 2, 0))
    Store(tmp_path).write({}, Results(sizes=np.array([1, 2, 3]), answers=answers))
    found = Store(tmp_path).read({})
    assert found is not None
    assert [len(answer) for answer in found.answers] == [0, 2, 0]


def test_a_view_is_what_the_network_sees(bundle: Bundle) -> None:
    viewer = Viewer(pictures_of(bundle.manifest))
    whole = whole_network(bundle.open_stage(bundle.full()))
    (sample,) = _samples(1)
    view = viewer.view(sample.frame)
    assert view.shape == (16, 16, 3)
    sent = [
        ViewedPicture(codec="jpeg", quality=95, share=share, viewer=viewer, whole=whole).send(
            sample.frame
        )
        for share in (1.0, 0.5)
    ]
    assert sent[1].size_bytes < sent[0].size_bytes
    assert sent[1].outputs["logits"].shape == (1, 3)


def test_rivals_have_all_families(bundle: Bundle) -> None:
    viewer = Viewer(pictures_of(bundle.manifest))
    methods = list(picture_methods(viewer, lambda tensor: {}, kinds=("jpeg", "webp")))
    assert {method.family for method in methods} == {
        f"{codec}, {place}"
        for codec in ("jpeg", "webp")
        for place in ("native", "network size", "shrunk")
    }
    assert len({(method.family, method.setting) for method in methods}) == len(methods)


def test_tables_for_a_natural_cut_are_fitted(bundle: Bundle) -> None:
    cuts = [cut for cut in bundle.manifest.cuts if "q4+zstd" in cut.codecs]
    crossings = [cut_crossing(bundle, cut, threads=1) for cut in cuts]
    method = fitted_method(bundle, crossings, iter(_samples(12)))
    assert method is not None
    assert method.family == "natural cuts, q4, rans"
    assert method.send(_samples(1)[0].frame).size_bytes > 0
    assert fitted_method(bundle, [], iter(_samples(12))) is None
    assert fitted_method(bundle, crossings, iter([])) is None


def test_nothing_to_measure_on(bundle: Bundle) -> None:
    with pytest.raises(RateError, match="no sample"):
        Evaluator(bundle, [], lambda tensor: {})
    with pytest.raises(RateError, match="3 classes"):
        file_for(bundle.manifest)


def test_samples_have_a_fingerprint() -> None:
    assert fingerprint(iter(_samples(2))) == fingerprint(iter(_samples(2)))
    assert fingerprint(iter(_samples(2))) != fingerprint(iter(_samples(3)))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Agrees on the first samples only."""

    right: int
    samples: int = 40

    def agreement(self, weights: Weights) -> Values:
        return mean(np.arange(self.samples) < self.right, weights)

    def measures(self, weights: Weights) -> dict[str, Values]:
        return {"top-1": self.agreement(weights)}


def _point(size: int, right: int) -> Point:
    tally: Tally = _Fixed(right)
    return Point(
        family="f", setting=str(size), cut="c", codec="rans", sizes=np.full(40, size), tally=tally
    )


def test_bytes_at_equal_agreement() -> None:
    ours = [_point(100, 20), _point(400, 40)]
    rivals = {"a": [_point(800, 10), _point(3200, 40)], "b": [_point(1600, 38)]}
    bootstrap = Bootstrap(40, draws=50)
    ratio = compare(ours, rivals, [0.75], bootstrap)[0.75]
    assert ratio.ours == pytest.approx(200)
    assert ratio.rival == bytes_of(rivals["a"], 0.75)
    assert ratio.value == pytest.approx(200 / (ratio.rival or 0))
    assert ratio.interval is not None
    assert ratio.interval.low < (ratio.value or 0) < ratio.interval.high
    assert best_of(rivals, 0.95) == 1600
    assert Bootstrap(40, draws=3).weights[0].tolist() == bootstrap.weights[0].tolist()


def test_a_draw_is_what_its_samples_give_by_themselves() -> None:
    """Intervals the slow way: a curve of the drawn samples alone, one draw after another."""
    random = np.random.default_rng(4)
    curves = []
    for shift in (0, 3):
        curve = []
        for size, right in ((100, 10 + shift), (400, 25 + shift), (1600, 36 + shift)):
            point = _point(size, right)
            sizes = random.integers(size // 2, 2 * size, 40)
            curve.append(replace(point, sizes=sizes))
        curves.append(curve)
    bootstrap = Bootstrap(40, draws=30)
    found = compare(curves[0], {"a": curves[1]}, [0.6], bootstrap)[0.6]
    ratios = []
    for weights in bootstrap.weights:
        numbers = np.repeat(np.arange(40), weights.astype(int))
        needed = [
            bytes_at(
                [
                    Place(
                        size_bytes=float(point.sizes[numbers].mean()),
                        accuracy=float(np.mean(numbers < point.tally.right)),  # type: ignore[attr-defined]
                    )
                    for point in curve
                ],
                0.6,
            )
            for curve in curves
        ]
        if needed[0] is not None and needed[1] is not None:
            ratios.append(needed[0] / needed[1])
    assert found.reached == len(ratios) / 30
    low, high = np.quantile(ratios, [0.025, 0.975])
    assert found.interval is not None
    assert found.interval.low == pytest.approx(low)
    assert found.interval.high == pytest.approx(high)


def test_published_blocks_are_measured_from_their_stages(bundle: Bundle, tmp_path: Path) -> None:
    (cut,) = [cut for cut in bundle.manifest.cuts if "q4+zstd" in cut.codecs][:1]
    crossing = block_crossing(
        "block-2",
        bundle.path / cut.head.file,
        bundle.path / cut.tail.file,
        entrance=entrance_for(bundle.manifest),
    )
    methods = list(block_methods([crossing], _samples(6)))
    assert [method.family for method in methods[:2]] == [
        "published blocks, q8",
        "published blocks, block-2, rans",
    ]
    assert len({(method.family, method.setting) for method in methods}) == len(methods)
    evaluation = _evaluated(bundle, methods, tmp_path)
    assert evaluation.points[0].agreement() == 1.0
    coded = [point.mean_bytes() for point in evaluation.points[1:]]
    assert coded == sorted(coded, reverse=True)
    # Another block under the same name is not taken for this one.
    other = methods[0]
    assert isinstance(other, CutTensor)
    other = replace(other, crossing=_elsewhere(crossing))
    counting = _Counting(other)
    _evaluated(bundle, [counting], tmp_path)
    assert len(counting.asked) == 4


def _elsewhere(crossing: Crossing) -> Crossing:
    changed = copy.copy(crossing)
    changed.origin = "another training"
    return changed


def test_what_is_not_reachable_has_no_ratio() -> None:
    bootstrap = Bootstrap(40, draws=20)
    rivals = {"a": [_point(100, 10), _point(200, 40)]}
    never = compare([_point(100, 10)], rivals, [0.99], bootstrap)[0.99]
    assert never.value is None
    assert never.ours is None
    assert never.interval is None
    assert never.reached == 0
    assert compare([_point(100, 10)], {}, [0.25], bootstrap)[0.25].value is None
