"""A whole device with a tiny real network, and an edge that is a queue."""

import json
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest

from device_doubles import EchoPort, ScriptedCapture, damage, tiny_bundle, write_video
from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.ledger import Outcome
from headtail_device.loop import EdgeRequiredError
from headtail_device.opening import Connect
from headtail_device.sink import SinkError
from headtail_device.source import SourceOpener
from headtail_device.source.camera import CameraSource
from headtail_device.source.errors import EmptySourceError, NoSuchSourceError
from headtail_device.spool import FolderDisk
from headtail_device.spool.errors import SpoolInUseError
from headtail_device.summary import Progress, RunSummary
from headtail_fabric import config
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import DType, TensorInfo
from headtail_models.bundle import open_bundle
from headtail_models.bundle.errors import NoClassThresholdsError
from headtail_models.bundle.manifest import Preparation
from headtail_models.bundle.specimen import write_specimen

REPLY = TensorInfo(name="logits", dtype=DType.FLOAT32, shape=(2,), codec="raw")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", frames=8)


def device(bundle: Path, source: Path | str, **flags: object) -> DeviceConfig:
    given = {key.replace("__", "."): value for key, value in flags.items()}
    basics = {"bundle": str(bundle), "source": str(source), "edge.endpoint": "tcp://edge:1"}
    return config.load(DeviceConfig, None, {**basics, **given})


def echo(*, up: bool = True) -> tuple[Connect, list[EchoPort]]:
    """A way to connect, and the ports that were made."""
    made: list[EchoPort] = []

    def connect(chosen: DeviceConfig, digest: bytes, clock: Clock) -> ClientPort:
        logits = np.array([0, 3], dtype=np.float32).tobytes()
        made.append(EchoPort(digest, lambda: (REPLY, logits), up=up))
        return made[-1]

    return connect, made


def run(chosen: DeviceConfig, *, up: bool = True) -> RunSummary:
    connect, _ = echo(up=up)
    return run_device(chosen, stop=threading.Event(), connect=connect)


def test_a_clip_through_the_edge_with_every_output(
    bundle: Path, clip: Path, tmp_path: Path
) -> None:
    connect, ports = echo()
    told: list[Progress] = []
    ready: list[bool] = []
    chosen = device(
        bundle,
        clip,
        measure_jpeg=True,
        output__json=str(tmp_path / "out.jsonl"),
        output__video=tmp_path / "out.mp4",
        output__pictures=tmp_path / "pictures",
    )
    summary = run_device(
        chosen,
        stop=threading.Event(),
        connect=connect,
        progress=told.append,
        on_ready=lambda: ready.append(True),
    )
    assert summary.totals[Outcome.EDGE] == summary.frames == 8
    assert (summary.cut, summary.codec, summary.edge) == ("middle", "q8+zstd", "echo")
    assert (summary.bytes_up_per_frame, summary.bytes_down_per_frame) == (1100, 110)
    assert summary.payload_bytes_per_frame is not None
    assert 0 < summary.payload_bytes_per_frame < 80
    assert summary.jpeg_bytes_per_frame is not None
    assert summary.jpeg_bytes_per_frame > 500
    assert summary.latency_ms["total"].count == 8
    assert summary.latency_ms["tail"].p50 == pytest.approx(0.01)
    assert summary.faults == ()
    assert summary.frames_per_s > 0
    assert len(summary.outputs) == 3
    assert ready == [True]
    assert told
    assert told[0].frame_count == 8
    assert sum(told[-1].outcomes.values()) == 8, "the last look sees everything"
    assert ports[0].closed
    assert ports[0].cuts == ["middle"] * 8
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["frame"] for line in lines] == list(range(8))
    assert {line["outcome"] for line in lines} == {"edge"}
    assert lines[0]["answer"]["top"][0]["label"] == "bright"
    capture = cv2.VideoCapture(str(tmp_path / "out.mp4"))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 8
    assert len(list((tmp_path / "pictures").iterdir())) == 8


def test_pictures_can_be_sent_whole(bundle: Path, clip: Path) -> None:
    connect, ports = echo()
    chosen = device(bundle, clip, way__cut="input", way__codec="webp")
    summary = run_device(chosen, stop=threading.Event(), connect=connect)
    assert summary.totals[Outcome.EDGE] == 8
    assert ports[0].cuts == ["input"] * 8


def test_without_an_edge_every_frame_is_degraded(bundle: Path, clip: Path) -> None:
    summary = run(device(bundle, clip, edge__patience_s=0.0), up=False)
    assert summary.totals[Outcome.DEGRADED] == summary.frames == 8
    assert summary.bytes_up_per_frame is None
    assert summary.jpeg_bytes_per_frame is None
    assert summary.edge == ""


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("gated") / "gated", gated=True)


@pytest.fixture
def greys(tmp_path: Path) -> Path:
    """Pictures that a filter ends, that the edge answers, and that an exit answers."""
    folder = tmp_path / "greys"
    folder.mkdir()
    for index, brightness in enumerate((5, 64, 200)):
        picture = np.full((16, 16, 3), brightness, dtype=np.uint8)
        assert cv2.imwrite(str(folder / f"{index}.png"), picture)
    return folder


def three_logits() -> Connect:
    reply = TensorInfo(name="logits", dtype=DType.FLOAT32, shape=(3,), codec="raw")
    logits = np.array([0, 3, 0], dtype=np.float32).tobytes()
    return lambda chosen, digest, clock: EchoPort(digest, lambda: (reply, logits))


@pytest.mark.parametrize(
    ("flags", "outcomes"),
    [
        ({}, {Outcome.FILTERED: 1, Outcome.EDGE: 1, Outcome.EXIT: 1}),
        ({"gates__filter": False}, {Outcome.EDGE: 2, Outcome.EXIT: 1}),
        ({"gates__exit_point": "off"}, {Outcome.FILTERED: 1, Outcome.EDGE: 2}),
        ({"gates__exit_point": "eager"}, {Outcome.FILTERED: 1, Outcome.EXIT: 2}),
        ({"way__cut": "input"}, {Outcome.EDGE: 3}),
        ({"way__cut": "late", "way__codec": "q8"}, {Outcome.EDGE: 3}),
        ({"mode": "local"}, {Outcome.LOCAL: 3}),
    ],
)
def test_gates_are_heeded_as_configured(
    gated: Path, greys: Path, flags: dict[str, object], outcomes: dict[Outcome, int]
) -> None:
    chosen = device(gated, greys, **flags)
    summary = run_device(chosen, stop=threading.Event(), connect=three_logits())
    assert {outcome: n for outcome, n in summary.totals.outcomes.items() if n} == outcomes
    assert sum(summary.totals.gates.values()) == sum(
        outcomes.get(outcome, 0) for outcome in (Outcome.EXIT, Outcome.FILTERED)
    )


def test_a_policy_that_the_bundle_is_not_calibrated_for_is_an_error_at_the_start(
    gated: Path, greys: Path
) -> None:
    with pytest.raises(NoClassThresholdsError):
        run(device(gated, greys, gates__exit_policy="guided"))


def test_what_the_gates_save_is_counted(gated: Path, greys: Path) -> None:
    cut = open_bundle(gated).cut("code")
    presence, guess = cut.gates
    summary = run_device(device(gated, greys), stop=threading.Event(), connect=three_logits())
    expected = presence.macs + cut.device_macs + (presence.macs + guess.macs)
    assert summary.totals.macs == expected
    assert summary.macs_per_frame == pytest.approx(expected / 3)


def test_a_local_device_connects_to_nothing(bundle: Path, clip: Path) -> None:
    connect, ports = echo()
    chosen = device(bundle, clip, mode="local")
    summary = run_device(chosen, stop=threading.Event(), connect=connect)
    assert summary.totals[Outcome.LOCAL] == 8
    assert (ports, summary.cut) == ([], "")


def test_a_required_edge_that_is_not_there_is_an_error(bundle: Path, clip: Path) -> None:
    with pytest.raises(EdgeRequiredError) as caught:
        run(device(bundle, clip, edge__patience_s=0.0, edge__required=True), up=False)
    assert "edge.required" in caught.value.advice


def test_unreadable_frames_are_counted(bundle: Path, tmp_path: Path) -> None:
    clip = write_video(tmp_path / "clip.mp4", frames=30)
    damage(clip, size_bytes=clip.stat().st_size // 8)
    video = tmp_path / "out.mp4"
    summary = run(device(bundle, clip, output__video=video))
    unreadable = summary.totals[Outcome.UNREADABLE]
    assert unreadable > 0
    assert summary.totals[Outcome.EDGE] == 30 - unreadable
    assert cv2.VideoCapture(str(video)).get(cv2.CAP_PROP_FRAME_COUNT) == 30


def test_a_full_disk_costs_one_output_and_no_frame(
    bundle: Path, clip: Path, tmp_path: Path
) -> None:
    video = tmp_path / "out.mp4"
    summary = run(device(bundle, clip, output__json="/dev/full", output__video=video))
    assert summary.frames == summary.totals[Outcome.EDGE] == 8
    assert summary.outputs == (str(video),)
    (fault,) = summary.faults
    assert isinstance(fault, SinkError)


def test_nothing_stays_open_when_an_output_cannot_be_opened(
    bundle: Path, clip: Path, tmp_path: Path
) -> None:
    connect, ports = echo()
    chosen = device(
        bundle, clip, output__json=str(tmp_path / "out.jsonl"), output__video=tmp_path / "a" / "b"
    )
    (tmp_path / "a").touch()
    with pytest.raises(SinkError):
        run_device(chosen, stop=threading.Event(), connect=connect)
    assert ports == []


def test_a_stop_ends_the_run_with_the_books_closed(bundle: Path, clip: Path) -> None:
    stop = threading.Event()
    connect, _ = echo()

    def progress(told: Progress) -> None:
        stop.set()

    summary = run_device(device(bundle, clip), stop=stop, connect=connect, progress=progress)
    assert sum(summary.totals.outcomes.values()) == summary.frames < 8


@pytest.mark.parametrize("empty", [True, False])
def test_a_source_that_gives_nothing_is_an_error(bundle: Path, tmp_path: Path, empty: bool) -> None:
    with pytest.raises(EmptySourceError if empty else NoSuchSourceError):
        run(device(bundle, tmp_path if empty else tmp_path / "nosuch.mp4"))


def test_pictures_that_cannot_be_read_are_no_error_of_the_run(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    summary = run(device(bundle, tmp_path))
    assert summary.totals[Outcome.UNREADABLE] == summary.frames == 1
    assert summary.faults == ()


def test_a_camera_that_is_unplugged_is_a_fault_of_the_run(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plug_in(opener: SourceOpener, spec: str, takes: Preparation) -> CameraSource:
        capture = ScriptedCapture([True])
        return CameraSource(
            int(spec), deadline_s=1.0, clock=MonotonicClock(), open_capture=lambda _: capture
        )

    monkeypatch.setattr(SourceOpener, "open", plug_in)
    summary = run(device(bundle, "0"))
    assert summary.frames == summary.totals[Outcome.EDGE] == 1
    assert [fault.message for fault in summary.faults] == ["camera 0 gives no more pictures"]


def test_what_one_run_spools_the_next_one_sends(bundle: Path, clip: Path, tmp_path: Path) -> None:
    out, video = tmp_path / "out.jsonl", tmp_path / "out.avi"
    flags = {
        "edge__patience_s": 0.0,
        "spool__folder": tmp_path / "spool",
        "output__json": str(out),
        "output__video": video,
        "measure_jpeg": True,
    }
    first = run(device(bundle, clip, **flags), up=False)
    assert first.totals[Outcome.SPOOLED] == first.frames == 8
    assert (first.spool.waiting, first.spool.refused) == (8, 0)
    keys = {json.loads(line)["spool"] for line in out.read_text().splitlines()}
    second = run(device(bundle, clip, **{**flags, "edge__patience_s": 5.0}))
    totals = second.totals
    assert (second.frames, totals.inherited, totals[Outcome.EDGE]) == (16, 8, 16)
    assert second.spool.waiting == 0
    assert totals.pictures_measured == 8
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    late = [line for line in lines if line.get("final")]
    assert {line["spool"] for line in late} == keys
    assert all(line["inherited"] and line["outcome"] == "edge" for line in late)
    assert video.stat().st_size > 0
    assert not second.faults


def test_a_spool_in_use_is_an_error_at_the_start(bundle: Path, clip: Path, tmp_path: Path) -> None:
    held = FolderDisk(tmp_path)
    with pytest.raises(SpoolInUseError):
        run(device(bundle, clip, spool__folder=tmp_path))
    held.close()
