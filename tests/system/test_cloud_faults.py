"""The cloud server in worker processes, treated badly from outside: workers and the server itself
killed while they are asked."""

import os
import signal
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headtail_cloud.open_inference.message import encode_request
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from processes import Headtail, wait_until

pytest.importorskip("uvicorn", reason="needs the extra `cloud`")
pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("faults") / "specimen"))


@pytest.fixture
def port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def serving(bundle: Bundle, port: str) -> Headtail:
    words = ("--runtime", "process", "--workers", "2", "--port", port)
    return Headtail("cloud", "serve", "--model", f"{bundle.path}:early", *words)


def ask(url: str, bundle: Bundle) -> int:
    """The status of one request; 0 where nobody answers."""
    cut = bundle.cut("early")
    tensor = np.zeros((1, *cut.tensor.shape), np.float32)
    body, _ = encode_request(cut.tensor.name, tensor, binary=False, timeout_s=20.0)
    try:
        request = f"{url}/v2/models/specimen:early/infer"
        with urllib.request.urlopen(request, data=body, timeout=60) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def descendants(pid: int) -> list[int]:
    """Its zygote, and the zygote's workers."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(child) for children in lists for child in children.read_text().split()]
    return [*found, *(more for child in found for more in descendants(child))]


def gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True


def test_a_worker_killed_under_load_costs_no_answer(bundle: Bundle, port: str) -> None:
    with serving(bundle, port) as server:
        url = server.ready()["url"]
        wait_until(lambda: len(descendants(server.process.pid)) >= 2, "a zygote and a worker")
        with ThreadPoolExecutor(8) as threads:
            statuses = [threads.submit(ask, url, bundle) for _ in range(200)]
            for _ in range(3):
                _, *workers = descendants(server.process.pid)
                for pid in workers[:1]:
                    os.kill(pid, signal.SIGKILL)
                wait_until(lambda: ask(url, bundle) == 200, "an answer")
            assert {status.result() for status in statuses} == {200}
        assert server.terminate() == 0


def test_a_killed_server_leaves_no_process_and_another_takes_its_port(
    bundle: Bundle, port: str
) -> None:
    with serving(bundle, port) as first:
        url = first.ready()["url"]
        assert ask(url, bundle) == 200
        left = descendants(first.process.pid)
        assert len(left) >= 2
        first.kill()
        for pid in left:
            wait_until(lambda pid=pid: gone(pid), "the end of a worker")  # type: ignore[misc]
        assert ask(url, bundle) == 0
        with serving(bundle, port) as second:
            assert second.ready()["url"] == url
            assert ask(url, bundle) == 200
            assert second.terminate() == 0


def test_an_announced_model_is_there_before_its_first_request(
    bundle: Bundle, port: str, tmp_path: Path
) -> None:
    settings = tmp_path / "cloud.toml"
    settings.write_text("least_workers = 0\n")
    words = ("--runtime", "process", "--port", port, "--config", settings)
    with Headtail("cloud", "serve", "--model", f"{bundle.path}:early", *words) as server:
        url = server.ready()["url"]
        assert len(descendants(server.process.pid)) == 1, "the zygote alone"
        load = f"{url}/v2/repository/models/specimen:early/load"
        with urllib.request.urlopen(load, data=b"{}", timeout=60) as reply:
            assert reply.status == 200
        wait_until(lambda: len(descendants(server.process.pid)) == 2, "a worker")
        assert ask(url, bundle) == 200
        assert server.terminate() == 0
