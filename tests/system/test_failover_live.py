"""Two real edges and a device: one is killed, one is found by its key."""

from collections import Counter
from pathlib import Path

import pytest

from headtail.top.scrape import Scraper, parse_address
from headtail_fabric.clock import MonotonicClock
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, free_port, records, wait_until, write_clip

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


def outcomes(path: Path) -> Counter[str]:
    return Counter(record["outcome"] for record in records(path))


def serve(bundle: Path, *more: str | Path, bind: str = "tcp://127.0.0.1:0") -> Headtail:
    return Headtail("edge", "serve", "--bind", bind, "--bundle", bundle, *more)


def assert_each_frame_ended_once(path: Path) -> None:
    found = sorted(record["frame"] for record in records(path))
    assert found == list(range(len(found)))


def devices_at(port: int) -> float:
    """Sessions at the edge with that metrics port; 0 while it can't be read."""
    scraper = Scraper((parse_address(str(port)),), clock=MonotonicClock())
    (scrape,) = scraper.look()
    scraper.close()
    return 0.0 if scrape.samples is None else scrape.samples.sum("edge_sessions")


def test_a_killed_edge_costs_no_frame_while_there_is_another(bundle: Path, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", frames=6000, rate_hz=50)
    out, config = tmp_path / "frames.jsonl", tmp_path / "device.toml"
    ports = [free_port(), free_port()]
    with (
        serve(bundle, "--metrics-port", str(ports[0])) as first,
        serve(bundle, "--metrics-port", str(ports[1])) as second,
    ):
        where = [edge.ready()["endpoint"] for edge in (first, second)]
        config.write_text(
            f'source = "{clip}"\nbundle = "{bundle}"\npace = "realtime"\ndeadline_s = 10.0\n'
            f'edges = [{{ endpoint = "{where[0]}" }}, {{ endpoint = "{where[1]}" }}]\n'
            f'[output]\njson = "{out}"\n'
        )
        with Headtail("device", "run", "--config", config) as device:
            wait_until(lambda: outcomes(out)["edge"] >= 20, "answers")
            wait_until(lambda: [devices_at(port) for port in ports] == [1, 1], "both sessions")
            first.kill()
            before = outcomes(out)["edge"]
            wait_until(lambda: outcomes(out)["edge"] >= before + 50, "answers by the other edge")
            with serve(bundle, "--metrics-port", str(ports[0]), bind=where[0]) as again:
                again.ready()
                wait_until(lambda: devices_at(ports[0]) == 1, "the first edge's session")
                second.kill()
                before = outcomes(out)["edge"]
                wait_until(lambda: outcomes(out)["edge"] >= before + 50, "answers by the first")
                assert device.terminate() == 0
    assert_each_frame_ended_once(out)
    # Frames that came too fast are dropped by policy; all others were answered by an edge.
    assert set(outcomes(out)) <= {"edge", "dropped"}


def test_an_edge_is_found_by_the_key_that_the_device_was_given(
    bundle: Path, tmp_path: Path
) -> None:
    pytest.importorskip("zeroconf")
    for name in ("edge-1", "edge-2", "cam-1"):
        run_to_end("keys", "new", name, "--dir", tmp_path)
    allow = tmp_path / "allow.toml"
    run_to_end("keys", "enrol", tmp_path / "cam-1.pub", "--allow", allow)
    clip = write_clip(tmp_path / "clip.mp4", frames=40)
    out, config = tmp_path / "frames.jsonl", tmp_path / "device.toml"
    config.write_text(
        f'source = "{clip}"\nbundle = "{bundle}"\n[output]\njson = "{out}"\n'
        '[edge]\nendpoint = "mdns:"\nserver_key = "edge-1.pub"\nkey = "cam-1.key"\n'
        "patience_s = 30\n"
    )
    config.write_text(config.read_text().replace('"edge-1.pub"', f'"{tmp_path / "edge-1.pub"}"'))
    # Of all interfaces: the test must not depend on which one this machine has.
    anywhere = {"bind": "tcp://0.0.0.0:0"}
    keyed = [("--key", tmp_path / f"edge-{n}.key", "--allow", allow) for n in (1, 2)]
    with (
        serve(bundle, "--name", "stranger", "--announce", *keyed[1], **anywhere) as stranger,
        serve(bundle, "--name", "ours", "--announce", *keyed[0], **anywhere) as ours,
    ):
        stranger.ready()
        ours.ready()
        with Headtail("device", "run", "--config", config) as device:
            assert device.process.wait(PATIENCE_S) == 0
            errors = device.errors()
    assert outcomes(out) == {"edge": 40}, errors
    assert 'message="edge found" edge=ours' in errors
    assert "key is not known here" in errors


def run_to_end(*words: str | Path) -> None:
    with Headtail(*words) as process:
        assert process.process.wait(PATIENCE_S) == 0, process.errors()
