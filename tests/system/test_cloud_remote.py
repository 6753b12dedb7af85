"""A cloud server in front of two real servers of the OpenAI API, asked by the official client; one
of them is killed."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import Headtail, wait_until

openai = pytest.importorskip("openai", reason="the official client")
pytest.importorskip("uvicorn", reason="needs the extra `cloud`")
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore")]

SERVER = Path(__file__).parents[1] / "support" / "openai_server.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def others() -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    running = {
        port: subprocess.Popen([sys.executable, SERVER, str(port), name])
        for port, name in ((free_port(), "one"), (free_port(), "two"))
    }
    for port in running:
        wait_until(lambda port=port: _listens(port), "another server")  # type: ignore[misc]
    yield running
    for process in running.values():
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_remote_models_are_served_streamed_and_outlive_a_server(
    others: dict[int, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    settings = tmp_path / "cloud.toml"
    settings.write_text(
        "".join(
            f'[remotes.r{number}]\nurl = "http://127.0.0.1:{port}/v1"\n'
            for number, port in enumerate(others)
        )
    )
    with Headtail("cloud", "serve", "--port", "0", "--config", settings) as server:
        url = server.ready()["url"]
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        assert [model.id for model in client.models.list()] == ["echo"]

        def says(text: str) -> str:
            told = client.chat.completions.create(
                model="echo", messages=[{"role": "user", "content": text}]
            )
            return str(told.choices[0].message.content)

        assert says("hello").endswith(": hello")
        stream = client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "a b c"}], stream=True
        )
        assert [chunk.choices[0].delta.content for chunk in stream] == ["a ", "b ", "c "]
        with pytest.raises(openai.InternalServerError):
            says("fail")
        first = next(iter(others.values()))
        first.kill()
        first.wait()
        assert says("still there") == "two: still there"
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="other", messages=[])
        client.close()
        assert server.terminate() == 0
