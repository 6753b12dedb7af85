"""Headtail's edge and the servers it is compared with, for real, on a tail that costs nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from edge_doubles import crossing, encoded
from headtail.bench.mixed_cuts import compare
from headtail.bench.report import Report
from headtail.load.closed_loop import ClosedLoop
from headtail.load.device_dialogue import devices, port_of
from headtail.load.http_dialogue import HttpDialogue
from headtail.load.payload import Payload
from headtail.load.rival_process import RivalProcess
from headtail.load.rivals.tail import CODEC
from headtail.local_edge import LocalEdge
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen

pytestmark = pytest.mark.system


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    write_specimen(tmp_path / "bundle")
    return open_bundle(tmp_path / "bundle")


def _payload(bundle: Bundle, cut: str = "late") -> Payload:
    info, buffer = encoded(bundle, cut, crossing(bundle, cut), CODEC)
    return Payload(digest=bundle.digest, cut=cut, tensors=(info,), buffers=(buffer,))


def _words(bundle: Bundle, payload: Payload) -> Sequence[str]:
    return ("--bundle", str(bundle.path), "--cut", payload.cut, "--workers", "1")


def test_devices_are_answered_by_an_edge(bundle: Bundle, tmp_path: Path) -> None:
    with (
        LocalEdge(bundle.path, log=tmp_path / "edge.log") as edge,
        ClosedLoop(port_of(edge.endpoint), devices(2, _payload(bundle)), in_flight=2) as crowd,
    ):
        run = crowd.run(0.3)
    assert run.requests >= 4
    assert run.batch is not None


@pytest.mark.long
def test_an_edge_that_mixes_cuts_is_compared_with_one_that_does_not(bundle: Bundle) -> None:
    report = Report("edge-mixed-cuts", {})
    payloads = [_payload(bundle, cut) for cut in ("early", "late")]
    compare(report, bundle, payloads, workers=1, rounds=1, seconds=0.1)
    for setting in ("auto", "always", "never"):
        for clients in (1, 2, 4):
            assert report.figures[f"mixed_{setting}_requests_per_s_{clients}_clients"] > 0
            assert report.figures[f"mixed_{setting}_cpu_ms_{clients}_clients"] >= 0


def test_http_clients_are_answered_by_a_rival(bundle: Bundle, tmp_path: Path) -> None:
    payload = _payload(bundle)
    with RivalProcess(
        "fastapi_server",
        ready_path="/health",
        log=tmp_path / "rival.log",
        options=_words(bundle, payload),
    ) as rival:
        body = bytes(payload.buffers[0])
        dialogues = [HttpDialogue(path="/predict", body=body, headers={}) for _ in range(2)]
        with ClosedLoop(rival.port, dialogues) as crowd:
            assert crowd.run(0.3).requests >= 2
        wrong = HttpDialogue(path="/predict", body=b"no frame", headers={})
        with ClosedLoop(rival.port, [wrong]) as crowd, pytest.raises(RuntimeError, match="500"):
            crowd.run(0.3)


def test_a_rival_that_does_not_come_up_is_told(bundle: Bundle, tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="did not come up"),
        RivalProcess(
            "fastapi_server",
            ready_path="/health",
            log=tmp_path / "rival.log",
            options=("--bundle", str(tmp_path / "nothing"), "--cut", "c"),
        ),
    ):
        pass
