"""What a bundle offers, and what its ways cost on this device."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from msgspec.structs import replace as with_

from headtail_device.controller import (
    Option,
    StageCosts,
    WayCost,
    measure,
    menu,
    pictures_of,
    undominated,
    ways,
)
from headtail_device.head import Encoded
from headtail_device.placement import Local, Offload, Remote, Split, way_name
from headtail_fabric.clock import FakeClock
from headtail_models.bundle.manifest import (
    ClassifyTask,
    Cut,
    Exit,
    Filter,
    Manifest,
    Measured,
    MeasuredPicture,
    OperatingPoint,
    Preprocess,
    StageEntry,
    TensorSpec,
)
from headtail_models.head_chain import GateSettings
from headtail_models.task import Answer, ClassifyAnswer, Geometry, Picture

JPEG = Offload(codec="jpeg", quality=90)
EARLY = Split(cut="early", codec="q4+zstd")
SPEC = TensorSpec(name="t", dtype="float32", shape=(3,))


def stage(macs: int) -> StageEntry:
    return StageEntry(file="f.onnx", inputs=(SPEC,), outputs=(SPEC,), macs=macs)


def measured(*codecs: str) -> tuple[Measured, ...]:
    return tuple(Measured(codec=one, value=0.9, drop=0.01, mean_bytes=100.0) for one in codecs)


def an_exit(name: str, *, shares: tuple[float, float]) -> Exit:
    points = zip(("eager", "careful"), shares, (0.05, 0.01), strict=True)
    return Exit(
        name=name,
        branch=stage(10),
        criterion="entropy",
        points=tuple(
            OperatingPoint(name=point, threshold=0.5, coverage=share, drop=drop)
            for point, share, drop in points
        ),
        default_point="careful",
    )


GATES = (
    Filter(name="filter", branch=stage(20), threshold=0.1, recall=0.9, dropped=0.1),
    an_exit("first", shares=(0.5, 0.2)),
    an_exit("second", shares=(0.2, 0.1)),
)
CUTS = (
    Cut(
        name="early",
        head=stage(60),
        tail=stage(300),
        codecs=("raw", "q4", "q4+zstd", "q8"),
        measured=measured("q4", "q4+zstd"),
    ),
    Cut(name="plain", head=stage(100), tail=stage(300), codecs=("raw", "raw+zstd", "q8")),
    Cut(
        name="gated",
        gates=GATES,
        head=stage(60),
        tail=stage(300),
        codecs=("q8",),
        measured=measured("q8"),
    ),
)
MANIFEST = Manifest(
    schema=1,
    name="m",
    version="1",
    task=ClassifyTask(output="t"),
    labels=("a",),
    preprocess=Preprocess(kind="letterbox", width=4, height=4),
    full=stage(400),
    cuts=CUTS,
    default_cut="early",
    default_codec="q4",
    files=(),
)
COSTS = StageCosts(
    ways={
        "local": WayCost(compute_s=0.4),
        "early q4+zstd": WayCost(prepare_s=0.01, compute_s=0.1, encode_s=0.02, payload_bytes=500.0),
        "gated q8": WayCost(prepare_s=0.01, compute_s=0.1, encode_s=0.02, payload_bytes=900.0),
        "input jpeg 90": WayCost(
            compute_s=0.0, encode_s=0.01, payload_bytes=2000.0, payload_deviation_bytes=100.0
        ),
    }
)


def offered(
    pictures: dict[Offload, float] | None = None,
    *,
    costs: StageCosts = COSTS,
    gates: GateSettings | None = None,
) -> tuple[Option, ...]:
    known = pictures or {}
    return menu(MANIFEST, costs, ways(MANIFEST, known), known, gates=gates)


def test_ways_have_their_names() -> None:
    assert way_name(Local(degraded=True)) == "local"
    assert way_name(EARLY) == "early q4+zstd"
    assert way_name(JPEG) == "input jpeg 90"


def test_what_is_known_to_be_accurate_is_offered_best_packed() -> None:
    assert ways(MANIFEST, [JPEG]) == (
        EARLY,
        Split(cut="plain", codec="raw+zstd"),
        Split(cut="gated", codec="q8"),
        JPEG,
    )


def test_an_option_a_way_with_what_it_costs_here() -> None:
    options = {option.name: option for option in offered({JPEG: 0.003})}
    assert options["local"].device_s == pytest.approx(0.4)
    assert options["local"].device_macs == 400
    early = options["early q4+zstd"]
    assert early.device_s == pytest.approx(0.13)
    # Until it has answered, the edge is taken to be a server's core.
    assert early.server_s == pytest.approx(300 / 20e9)
    assert (early.drop, early.payload_bytes, early.point) == (0.01, 500.0, "")
    picture = options["input jpeg 90"]
    assert (picture.drop, picture.payload_deviation_bytes) == (0.003, 100.0)
    assert picture.server_s == pytest.approx(400 / 20e9)
    # What was not measured here is not offered.
    assert "plain raw+zstd" not in options


def test_an_edge_is_at_least_as_fast_as_the_device() -> None:
    fast = StageCosts(ways={**COSTS.ways, "local": WayCost(compute_s=1e-9)})
    options = {option.name: option for option in offered(costs=fast)}
    assert options["early q4+zstd"].server_s == pytest.approx(0.75e-9)


def test_exits_give_an_option_a_point() -> None:
    options = {option.point: option for option in offered() if option.point}
    assert list(options) == ["eager", "careful", "off"]
    eager, off = options["eager"], options["off"]
    assert eager.coverage == pytest.approx(0.7 + 0.1)
    assert eager.drop == pytest.approx(0.7 * 0.05 + 0.3 * 0.01)
    assert eager.gates_macs == 40
    assert eager.gates_s == pytest.approx(0.01 + 0.1 * 40 / 100)
    assert eager.gates_s + eager.device_s == pytest.approx(0.13)
    assert off.coverage == pytest.approx(0.1)
    assert off.drop == pytest.approx(0.01)
    assert off.gates_macs == 20
    assert eager.name == "gated q8 @eager"


def test_what_the_operator_turned_off_is_not_reckoned_with() -> None:
    plain = offered(gates=GateSettings(filter=False, exit_point="off"))
    (off,) = (option for option in plain if option.point)
    assert (off.point, off.coverage, off.gates_macs) == ("off", 0.0, 0)
    (careful,) = (
        option for option in offered(gates=GateSettings(exit_point="careful")) if option.point
    )
    assert careful.coverage == pytest.approx(0.3 + 0.1)


def test_the_bundle_may_know_what_a_picture_costs() -> None:
    knows = MeasuredPicture(codec="jpeg", quality=90, value=0.9, drop=0.004, mean_bytes=2e3)
    assert pictures_of(with_(MANIFEST, pictures=(knows,))) == {JPEG: 0.004}
    assert pictures_of(MANIFEST) == {}


def test_what_another_way_beats_in_everything_is_left_out() -> None:
    local, *remote = offered({JPEG: 0.003})
    early = next(option for option in remote if option.way == "early q4+zstd")
    worse = replace(
        early, placement=Split(cut="worse", codec="q8"), payload_bytes=600.0, device_s=0.2
    )
    lighter = replace(worse, placement=Split(cut="lighter", codec="q8"), payload_bytes=400.0)
    kept = undominated([worse, local, early, lighter])
    assert set(kept) == {local, early, lighter}


def test_a_slower_device_takes_longer_and_sends_the_same() -> None:
    slowed = COSTS.slowed(20)
    assert slowed.local_s == pytest.approx(8.0)
    assert slowed.ways["early q4+zstd"].prepare_s == pytest.approx(0.2)
    assert slowed.ways["input jpeg 90"].payload_bytes == 2000.0


GEOMETRY = Geometry(
    picture_width=1,
    picture_height=1,
    network_width=1,
    network_height=1,
    scale_x=1.0,
    scale_y=1.0,
    left=0.0,
    top=0.0,
)


@dataclass
class SlowHead:
    """Takes ever longer; a picture's payload has as many bytes as its first value says."""

    clock: FakeClock
    spent_s: float = 0.0

    def encode(self, picture: Picture, way: Remote) -> Encoded:
        self.spent_s += 1.0
        return Encoded(
            tensors=(),
            payloads=(bytes(int(picture.flat[0])),),
            geometry=GEOMETRY,
            prepare_s=0.5,
            compute_s=self.spent_s,
            encode_s=0.25,
        )

    def whole(self, picture: Picture) -> Answer:
        self.spent_s += 1.0
        self.clock.advance(self.spent_s)
        return ClassifyAnswer(top=())


def pictures(*sizes: int) -> list[Picture]:
    return [np.full((1, 1, 3), size, dtype=np.uint8) for size in sizes]


def test_measuring_takes_medians_of_times_and_means_of_sizes() -> None:
    clock = FakeClock()
    costs = measure(SlowHead(clock), [EARLY], pictures(10, 20, 60), clock)
    assert costs.local_s == pytest.approx(3.0)
    early = costs.ways["early q4+zstd"]
    assert (early.prepare_s, early.compute_s, early.encode_s) == (0.5, 7.0, 0.25)
    assert early.payload_bytes == 30.0
    assert early.payload_deviation_bytes == pytest.approx(21.6, abs=0.1)


def test_there_must_be_something_to_measure_on() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="nothing to measure"):
        measure(SlowHead(clock), [EARLY], [], clock)


def test_a_bundle_without_cuts_is_local() -> None:
    bare = with_(MANIFEST, cuts=())
    options = menu(bare, COSTS, ways(bare), {})
    assert [option.name for option in options] == ["local"]
    assert replace(options[0], device_s=1.0) != options[0]
