"""The cloud server, its function container and its handler as real processes, asked over real
sockets, by a real client of another project where that is installed."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtail_cloud.open_inference.message import HEADER_LENGTH, encode_request
from headtail_cloud.tenants import new_tenant
from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import noise, write_specimen
from processes import Headtail, wait_until

pytest.importorskip("uvicorn", reason="needs the extra `cloud`")
pytestmark = pytest.mark.system

Reply = tuple[int, dict[str, str], bytes]
"""Status, headers by their names in lower case, body."""


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("cloud") / "specimen"))


@pytest.fixture(scope="module")
def crossing(specimen: Bundle) -> Array:
    head = specimen.open_stage(specimen.head("early"))
    (tensor,) = head.run({head.inputs[0].name: noise(1, seed=1)}).values()
    return tensor


@pytest.fixture(scope="module")
def expected(specimen: Bundle) -> Array:
    stage = specimen.open_stage(specimen.full())
    (logits,) = stage.run({stage.inputs[0].name: noise(1, seed=1)}).values()
    return logits


def serving(bundle: Bundle, *words: str | Path) -> Headtail:
    return Headtail("cloud", "serve", "--port", "0", "--model", bundle.path, *words)


def ask(url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, _lower(reply.headers), reply.read()
    except urllib.error.HTTPError as failed:
        with failed:
            return failed.code, _lower(failed.headers), failed.read()


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def infer(
    url: str, bundle: Bundle, tensor: Array, **more: Any
) -> tuple[int, dict[str, str], bytes]:
    body, length = encode_request(bundle.cut("early").tensor.name, tensor, **more)
    headers = {HEADER_LENGTH: str(length)} if length is not None else {}
    return ask(f"{url}/v2/models/specimen:early/infer", body, headers)


@pytest.mark.parametrize("runtime", ["in-process", "process"])
def test_serves_measures_and_stops(
    specimen: Bundle, crossing: Array, expected: Array, runtime: str
) -> None:
    with serving(specimen, "--runtime", runtime) as server:
        ready = server.ready()
        assert ready["models"] == ["specimen", "specimen:early", "specimen:late"]
        url = ready["url"]
        assert ask(f"{url}/readyz")[0] == 200
        status, headers, body = infer(url, specimen, crossing)
        assert status == 200
        got = np.frombuffer(body[int(headers[HEADER_LENGTH.lower()]) :], "<f4")
        np.testing.assert_allclose(got, expected[0], atol=1e-5)
        assert b'headtail_cloud_requests_total{outcome="done"} 1.0' in ask(f"{url}/metrics")[2]
        assert server.terminate() == 0


def test_a_flood_is_answered_or_told_when_to_come_again(specimen: Bundle, crossing: Array) -> None:
    with serving(specimen) as server:
        url = server.ready()["url"]
        with ThreadPoolExecutor(16) as threads:
            futures = [
                threads.submit(infer, url, specimen, crossing, timeout_s=0.02) for _ in range(48)
            ]
            replies = [future.result() for future in futures]
        assert {status for status, _, _ in replies} <= {200, 422, 429, 504}
        for status, headers, _ in replies:
            assert status != 429 or int(headers["retry-after"]) >= 1
        assert infer(url, specimen, crossing)[0] == 200


def test_keys_keep_strangers_out(specimen: Bundle, crossing: Array, tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(new_tenant("cameras"))
    key = path.read_text().splitlines()[0].removeprefix("# key: ")
    with serving(specimen, "--tenants", path) as server:
        url = server.ready()["url"]
        assert infer(url, specimen, crossing)[0] == 401
        body, _ = encode_request(specimen.cut("early").tensor.name, crossing, binary=False)
        headers = {"Authorization": f"Bearer {key}"}
        assert ask(f"{url}/v2/models/specimen:early/infer", body, headers)[0] == 200


def test_an_open_server_and_a_taken_port_are_refused(specimen: Bundle) -> None:
    with serving(specimen, "--host", "0.0.0.0") as server:
        assert server.process.wait(60) == 1
        assert "headtail cloud key" in " ".join(server.errors().split())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("cloud", "serve", "--model", specimen.path, "--port", port)
        with Headtail(*words) as server:
            assert server.process.wait(60) == 1
            assert f"127.0.0.1 port {port}" in server.errors()


def test_a_model_that_is_not_there_ends_the_server_with_advice(specimen: Bundle) -> None:
    with Headtail("cloud", "serve", "--port", "0", "--model", "nothing-like-it") as server:
        assert server.process.wait(60) == 1
        assert "headtail bundle list" in " ".join(server.errors().split())


@pytest.mark.filterwarnings("ignore")
def test_tritons_own_client(specimen: Bundle, crossing: Array, expected: Array) -> None:
    client_of = pytest.importorskip("tritonclient.http")
    with serving(specimen) as server:
        address = server.ready()["url"].removeprefix("http://")
        client = client_of.InferenceServerClient(address)
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("specimen:early")
        name = client.get_model_metadata("specimen:early")["inputs"][0]["name"]
        for binary in (True, False):
            tensor = client_of.InferInput(name, crossing.shape, "FP32")
            tensor.set_data_from_numpy(crossing, binary_data=binary)
            wanted = client_of.InferRequestedOutput("logits", binary_data=binary)
            result = client.infer("specimen:early", [tensor], outputs=[wanted], timeout=30_000_000)
            np.testing.assert_allclose(result.as_numpy("logits"), expected, atol=1e-5)
        with pytest.raises(client_of.InferenceServerException, match="no model"):
            client.get_model_metadata("nothing")
        client.close()


def test_a_function_container_takes_events(
    specimen: Bundle, crossing: Array, expected: Array
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    words = ("cloud", "function", f"{specimen.path}:early")
    with Headtail(*words, env={"PORT": port}) as server:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(f"{url}/healthz"), "the function's health")
        body, _ = encode_request(specimen.cut("early").tensor.name, crossing, binary=False)
        event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/c", "ce-type": "frame"}
        status, headers, answer = ask(f"{url}/", body, event)
        assert (status, headers["ce-type"]) == (200, "headtail.answer")
        np.testing.assert_allclose(json.loads(answer)["outputs"][0]["data"], expected[0], atol=1e-5)
        assert server.terminate() in (0, -15)


def test_the_handler_alone_needs_no_server(
    specimen: Bundle, crossing: Array, expected: Array
) -> None:
    """A fresh process with the base installation's modules: what a platform starts."""
    body, _ = encode_request(specimen.cut("early").tensor.name, crossing, binary=False)
    script = (
        "import json, sys\n"
        "from headtail_cloud.serverless.aws_lambda import handler\n"
        "answer = handler(json.load(sys.stdin), None)\n"
        "assert not {'starlette', 'uvicorn', 'torch', 'onnx'} & set(sys.modules)\n"
        "print(json.dumps(answer))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=body,
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "HEADTAIL_MODEL": f"{specimen.path}:early"},
    )
    got = json.loads(done.stdout)["outputs"][0]["data"]
    np.testing.assert_allclose(got, expected[0], atol=1e-5)


def _answers(url: str) -> bool:
    try:
        return ask(url)[0] == 200
    except OSError:
        return False
