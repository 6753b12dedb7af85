"""Real device and edge processes: the edge dies, comes back, lacks the bundle, is not there."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, records, wait_until, write_clip

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


def serve(bundle: Path | None, bind: str = "tcp://127.0.0.1:0", *more: str) -> Headtail:
    served = [] if bundle is None else ["--bundle", str(bundle)]
    return Headtail("edge", "serve", "--bind", bind, *served, *more)


def device(bundle: Path, source: Path, endpoint: str, out: Path, *more: str) -> Headtail:
    words = ["device", "run", "--bundle", str(bundle), "--source", str(source)]
    return Headtail(*words, "--edge", endpoint, "--json", str(out), *more)


def outcomes(path: Path) -> Counter[str]:
    return Counter(record["outcome"] for record in records(path))


def assert_each_frame_ended_once(path: Path, frames: int) -> None:
    assert sorted(record["frame"] for record in records(path)) == list(range(frames))


def test_a_killed_edge_costs_no_frame_and_is_returned_to(bundle: Path, tmp_path: Path) -> None:
    frames = 3000
    clip = write_clip(tmp_path / "clip.mp4", frames=frames, rate_hz=50)
    out = tmp_path / "frames.jsonl"
    with serve(bundle) as first:
        endpoint = first.ready()["endpoint"]
        with device(bundle, clip, endpoint, out, "--pace", "realtime") as running:
            wait_until(lambda: outcomes(out)["edge"] >= 20, "answers by the edge")
            first.kill()
            wait_until(lambda: outcomes(out)["degraded"] >= 20, "answers without the edge")
            before = outcomes(out)["edge"]
            with serve(bundle, endpoint) as second:
                second.ready()
                wait_until(lambda: outcomes(out)["edge"] >= before + 20, "the edge's answers again")
                assert running.terminate() == 0
                assert second.terminate() == 0
    ended = outcomes(out)
    total = sum(ended.values())
    assert 60 <= total <= frames
    assert_each_frame_ended_once(out, total)
    assert ended["failed"] == 0
    for record in records(out):
        assert ("answer" in record) == (record["outcome"] in ("edge", "degraded"))


@pytest.mark.parametrize("seed", range(3))
def test_an_edge_stopped_in_order_costs_no_frame(bundle: Path, tmp_path: Path, seed: int) -> None:
    frames = 150
    clip = write_clip(tmp_path / "clip.mp4", frames=frames)
    out = tmp_path / "frames.jsonl"
    with serve(bundle) as edge:
        endpoint = edge.ready()["endpoint"]
        with device(bundle, clip, endpoint, out) as running:
            wait_until(lambda: len(records(out)) >= 10 * (seed + 1), "some frames")
            assert edge.terminate() == 0
            assert running.process.wait(PATIENCE_S) == 0
    assert_each_frame_ended_once(out, frames)
    assert set(outcomes(out)) <= {"edge", "degraded"}


def test_without_an_edge_every_frame_is_answered_degraded(bundle: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=20)
    out = tmp_path / "frames.jsonl"
    with device(bundle, clip, "tcp://127.0.0.1:9", out) as running:
        assert running.process.wait(PATIENCE_S) == 0
    assert outcomes(out) == {"degraded": 20}


def test_an_edge_that_lacks_the_bundle_gets_it_pushed(bundle: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=2000, rate_hz=50)
    out = tmp_path / "frames.jsonl"
    config = tmp_path / "edge.toml"
    config.write_text(f'[push]\naccept_from = "everyone"\nfolder = "{tmp_path / "pushed"}"\n')
    with serve(None, "tcp://127.0.0.1:0", "--config", str(config)) as edge:
        endpoint = edge.ready()["endpoint"]
        more = ("--push-bundles", "--pace", "realtime")
        with device(bundle, clip, endpoint, out, *more) as running:
            wait_until(lambda: outcomes(out)["edge"] >= 10, "answers after the push")
            assert running.terminate() == 0
    assert_each_frame_ended_once(out, len(records(out)))
    assert len(list((tmp_path / "pushed").iterdir())) >= 1


def test_an_edge_that_lacks_the_bundle_and_takes_none_is_no_help_and_says_so(
    bundle: Path, tmp_path: Path
) -> None:
    other = write_specimen(tmp_path / "other", version="2.0")
    clip = write_clip(tmp_path / "clip.mp4", frames=20)
    out = tmp_path / "frames.jsonl"
    with serve(other) as edge:
        endpoint = edge.ready()["endpoint"]
        with device(bundle, clip, endpoint, out) as running:
            assert running.process.wait(PATIENCE_S) == 0
            assert "bundle" in running.errors()
    assert outcomes(out) == {"degraded": 20}


def test_a_port_in_use_is_said_in_one_line(bundle: Path) -> None:
    with serve(bundle) as first:
        endpoint = first.ready()["endpoint"]
        with serve(bundle, endpoint) as second:
            assert second.process.wait(PATIENCE_S) == 1
            errors = second.errors()
    assert "the port is in use" in errors
    assert "Traceback" not in errors


def test_a_full_disk_at_a_sink_is_reported_and_the_others_go_on(
    bundle: Path, tmp_path: Path
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this platform")
    clip = write_clip(tmp_path / "clip.mp4", frames=10)
    pictures = tmp_path / "pictures"
    with serve(bundle) as edge:
        endpoint = edge.ready()["endpoint"]
        words = ("--pictures", str(pictures))
        with device(bundle, clip, endpoint, Path("/dev/full"), *words) as running:
            assert running.process.wait(PATIENCE_S) == 1
            errors = running.errors()
    assert "/dev/full" in errors
    assert len(list(pictures.iterdir())) == 10


def test_an_edge_stops_when_its_parents_pipe_ends(bundle: Path) -> None:
    with serve(bundle, "tcp://127.0.0.1:0", "--stop-on-eof") as edge:
        edge.ready()
        assert edge.process.stdin is not None
        edge.process.stdin.close()
        assert edge.process.wait(PATIENCE_S) == 0


def test_run_brings_its_own_edge_and_writes_everything(bundle: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=40)
    out = tmp_path / "out"
    words: list[str | Path] = ["run", "--source", clip, "--bundle", bundle, "--out", out]
    with Headtail(*words) as run:
        output = run.process.communicate(timeout=PATIENCE_S)[0].decode()
        assert run.process.returncode == 0
    assert outcomes(out / "frames.jsonl") == {"edge": 40}
    assert "answered by the edge" in output
    assert {path.name for path in out.iterdir()} == {
        "annotated.mp4",
        "edge.log",
        "frames.jsonl",
        "summary.json",
    }


def test_an_interrupted_run_ends_in_order_and_leaves_no_edge(bundle: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=5000, rate_hz=25)
    out = tmp_path / "out"
    words: list[str | Path] = ["run", "--source", clip, "--bundle", bundle, "--out", out]
    with Headtail(*words, "--pace", "realtime") as run:
        wait_until(lambda: outcomes(out / "frames.jsonl")["edge"] >= 5, "some answers")
        run.process.send_signal(signal.SIGINT)
        output = run.process.communicate(timeout=PATIENCE_S)[0].decode()
        assert run.process.returncode == 0
    pid = int(output.split("process ")[1].split(",")[0])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert_each_frame_ended_once(out / "frames.jsonl", len(records(out / "frames.jsonl")))


def test_keys_let_the_enrolled_device_in_and_nobody_else(bundle: Path, tmp_path: Path) -> None:
    keyring, allow = tmp_path / "keys", tmp_path / "allow.toml"
    for name in ("edge-1", "cam-1", "cam-2"):
        run_to_end("keys", "new", name, "--dir", keyring)
    run_to_end("keys", "enrol", keyring / "cam-1.pub", "--allow", allow)
    clip = write_clip(tmp_path / "clip.mp4", frames=20)
    secured = ("--key", str(keyring / "edge-1.key"), "--allow", str(allow))
    with serve(bundle, "tcp://127.0.0.1:0", *secured) as edge:
        endpoint = edge.ready()["endpoint"]
        for name, outcome in (("cam-1", "edge"), ("cam-2", "degraded")):
            out = tmp_path / f"{name}.jsonl"
            key = ("--key", str(keyring / f"{name}.key"))
            server = ("--server-key", str(keyring / "edge-1.pub"))
            with device(bundle, clip, endpoint, out, *key, *server) as running:
                assert running.process.wait(PATIENCE_S) == 0
                errors = running.errors()
            assert outcomes(out) == {outcome: 20}, errors
    assert "refused this device's key" in errors


def run_to_end(*words: str | Path) -> None:
    with Headtail(*words) as process:
        assert process.process.wait(PATIENCE_S) == 0, process.errors()
