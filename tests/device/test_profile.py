"""What every way costs here, found out at the first start."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from device_doubles import GEOMETRY, tiny_bundle, write_video
from headtail_device.controller import StageCosts, WayCost
from headtail_device.cost_store import CostStore
from headtail_device.head import Encoded
from headtail_device.placement import Offload, Remote, Split
from headtail_device.profile import first_frames, profile
from headtail_device.source import SourceOpener
from headtail_device.stand_in import nothing, something
from headtail_fabric.clock import FakeClock
from headtail_models.bundle import open_bundle
from headtail_models.bundle.manifest import LogMel, Manifest, Measured, Signal
from headtail_models.task import Answer, ClassifyAnswer, Frame

WAY = Split(cut="middle", codec="q8")
OTHER = Split(cut="middle", codec="raw")
JPEG = Offload(codec="jpeg", quality=80)


class CountingHead:
    """Takes 0.25 s for anything; payloads have 40 bytes."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.ran: list[Remote | None] = []

    def encode(self, data: Frame, way: Remote) -> Encoded:
        self.ran.append(way)
        return Encoded(
            tensors=(),
            payloads=(bytes(40),),
            geometry=GEOMETRY,
            prepare_s=0.0,
            compute_s=0.25,
            encode_s=0.0,
        )

    def whole(self, data: Frame) -> Answer:
        self.ran.append(None)
        self._clock.advance(0.25)
        return ClassifyAnswer(top=())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return open_bundle(tiny_bundle(tmp_path_factory.mktemp("bundle"))).manifest


def run(
    manifest: Manifest, remotes: list[Remote], store: CostStore | None
) -> tuple[StageCosts, list[Remote | None]]:
    head = CountingHead(clock := FakeClock())
    costs = profile(head, manifest, remotes, [nothing(manifest)], clock=clock, store=store)
    return costs, head.ran


def test_cuts_are_measured_once_and_pictures_each_time(manifest: Manifest, tmp_path: Path) -> None:
    store = CostStore(tmp_path, digest=bytes(32), machine="m")
    costs, ran = run(manifest, [WAY, JPEG], store)
    assert set(costs.ways) == {"local", "middle q8", "input jpeg 80"}
    assert costs.local_s == 0.25
    assert set(ran) == {None, WAY, JPEG}
    again, ran = run(manifest, [WAY, JPEG], store)
    assert again == costs
    assert set(ran) == {JPEG}
    assert run(manifest, [WAY], None)[1].count(WAY) == 2, "nothing is kept, nothing is known"


def test_what_is_new_is_measured_and_what_is_known_stays(
    manifest: Manifest, tmp_path: Path
) -> None:
    store = CostStore(tmp_path, digest=bytes(32), machine="m")
    known = StageCosts(ways={"local": WayCost(compute_s=9.0), "middle q8": WayCost(compute_s=8.0)})
    store.save(known)
    costs, ran = run(manifest, [WAY, OTHER], store)
    assert (costs.local_s, costs.ways["middle q8"].compute_s) == (9.0, 8.0)
    assert set(ran) == {OTHER}
    assert store.load() == costs


def test_how_many_bytes_a_cut_has_the_bundle_knows(manifest: Manifest) -> None:
    measured = Measured(codec="q8", value=0.9, drop=0.0, mean_bytes=33.5)
    cut = replace(manifest.cuts[0], measured=(measured,))
    costs, _ = run(replace(manifest, cuts=(cut,)), [WAY, OTHER], None)
    assert costs.ways["middle q8"].payload_bytes == 33.5
    assert costs.ways["middle raw"].payload_bytes == 40.0


def test_a_few_frames_of_a_clip_are_taken_and_none_of_what_breaks(
    manifest: Manifest, tmp_path: Path
) -> None:
    clip = write_video(tmp_path / "clip.mp4", frames=20)
    opener = SourceOpener(pace="fast", deadline_s=1.0, clock=FakeClock())
    frames = first_frames(lambda: opener.open(str(clip), manifest.preprocess))
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 3
    assert not np.array_equal(frames[0], frames[1])
    missing = str(tmp_path / "no.mp4")
    assert first_frames(lambda: opener.open(missing, manifest.preprocess)) == []


def test_what_stands_in_for_a_frame_is_of_its_kind(manifest: Manifest) -> None:
    black, picture = nothing(manifest), something(manifest)
    assert black.shape == (8, 8, 3)
    assert not black.any()
    assert picture.shape == (480, 640, 3)
    assert black.dtype == picture.dtype == np.uint8
    assert 10 < picture.std() < 100
    assert np.array_equal(picture, something(manifest))
    hears = replace(manifest, preprocess=LogMel())
    assert nothing(hears).shape == (LogMel().front().patch_samples,)
    assert something(hears).dtype == np.float32
    feels = Signal(rate_hz=50.0, window=20, hop=10, offset=(0.0,) * 3, scale=(1.0,) * 3)
    assert something(replace(manifest, preprocess=feels)).shape == (20, 3)
