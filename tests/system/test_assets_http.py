"""Fetching over real sockets, from a server that breaks off, by two processes at once."""

import hashlib
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from headtail_models.assets.catalogue import Asset, Member

pytestmark = pytest.mark.system

DATA = os.urandom(3_000_000)
SCRIPT = """
import sys
from pathlib import Path
import msgspec
from headtail_models.assets.cache import fetch_asset
from headtail_models.assets.catalogue import Asset
from headtail_models.assets.progress import Silence

asset = msgspec.json.decode(sys.argv[1], type=Asset)
files = fetch_asset(asset, cache_dir=Path(sys.argv[2]), progress=Silence())
print(files["data.bin"])
"""


class _Index(ThreadingHTTPServer):
    """One package of one file; each answer breaks off after a megabyte."""

    def __init__(self, archive: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.archive = archive
        self.starts: list[int] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Index

    def do_GET(self) -> None:
        if self.path == "/simple/thing/":
            self._answer(200, b'<a href="/files/thing-1.0.zip">thing-1.0.zip</a>', "text/html")
            return
        wanted = self.headers.get("Range", "bytes=0-")
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        self.server.starts.append(start)
        rest = self.server.archive[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", "application/zip")
        self.send_header("Content-Length", str(len(rest)))
        if start:
            total = len(self.server.archive)
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        self.wfile.write(rest[:1_000_000])

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[_Index]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("pack/data.bin", DATA)
    server = _Index(buffer.getvalue())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def _asset(archive: bytes) -> Asset:
    member = Member(
        path="pack/data.bin", size_bytes=len(DATA), sha256=hashlib.sha256(DATA).hexdigest()
    )
    return Asset(
        name="thing",
        purpose="tests",
        kind="pypi",
        package="thing",
        version="1.0",
        filename="thing-1.0.zip",
        size_bytes=len(archive),
        sha256=hashlib.sha256(archive).hexdigest(),
        licence="MIT",
        members=(member,),
    )


def _start(asset: Asset, cache: Path, **environ: str) -> "subprocess.Popen[str]":
    encoded = msgspec.json.encode(asset).decode()
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, encoded, str(cache)],
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_and_a_server_that_breaks_off(index: _Index, tmp_path: Path) -> None:
    port = index.server_address[1]
    environ = {
        "PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple/",
        "PIP_CONFIG_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1",
    }
    processes = [_start(_asset(index.archive), tmp_path, **environ) for _ in range(2)]
    for process in processes:
        printed, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert Path(printed.strip()).read_bytes() == DATA
    # Each piece was asked for once, each time from where the last one ended.
    assert index.starts == sorted(set(index.starts))
    assert index.starts[0] == 0
    assert len(index.starts) == 4


def test_no_server(tmp_path: Path) -> None:
    process = _start(
        _asset(b"never made"),
        tmp_path,
        PIP_INDEX_URL="http://127.0.0.1:9/simple/",
        PIP_CONFIG_FILE=os.devnull,
        NO_PROXY="127.0.0.1",
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "UnreachableError" in errors
