"""`headtail assets` on a cache of its own and a registry in memory."""

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from headtail.commands import assets as command
from headtail_models.assets import cache, catalogue
from headtail_models.assets.catalogue import Asset, find
from headtail_models.assets.errors import UnknownAssetError
from headtail_models.assets.progress import ProgressSink

CONTENT = b"a clip"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headtail" / "assets"


def _run(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="headtail")
    command.add(parser.add_subparsers())
    options = parser.parse_args(["assets", *words])
    status: int = options.handler(options)
    return status


class _Registry:
    """Gives the asset's archive, made on the spot."""

    def __init__(self, archive: bytes) -> None:
        self.archive = archive

    def download(self, asset: Asset, part: Path, *, progress: ProgressSink) -> None:
        progress.begin(asset.filename, total_bytes=len(self.archive))
        part.write_bytes(self.archive)
        progress.advance(len(self.archive))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Asset:
    """The clip's asset with a content that a test can make."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("data/clip.mp4", CONTENT)
    archive, real = buffer.getvalue(), find("bikes")
    member = replace(
        real.members[0],
        path="data/clip.mp4",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    asset = replace(
        real,
        size_bytes=len(archive),
        sha256=hashlib.sha256(archive).hexdigest(),
        members=(member,),
    )
    for module in (command, cache):
        monkeypatch.setattr(module, "find", {"bikes": asset}.__getitem__)
    monkeypatch.setattr(command, "catalogue", lambda: (asset,))
    monkeypatch.setattr(cache, "_registry", lambda asset: _Registry(archive))
    return asset


def test_list_names_what_there_is(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("list") == 0
    said = capsys.readouterr().out
    for asset in catalogue():
        assert asset.name in said
        assert f"{asset.package} {asset.version}" in said
    assert "not fetched" in said


def test_fetch_brings_all_and_says_where(
    home: Path, small: Asset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("fetch") == 0
    assert "bikes: clip.mp4" in capsys.readouterr().out
    assert _run("verify") == 0
    assert "bikes: good" in capsys.readouterr().out


def test_path_is_all_that_is_printed(
    home: Path, small: Asset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("path", "bikes") == 0
    printed = Path(capsys.readouterr().out.strip())
    assert printed.read_bytes() == CONTENT
    assert home in printed.parents


def test_verify_finds_damage(home: Path, small: Asset, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("verify") == 0
    assert "not fetched" in capsys.readouterr().out
    _run("path", "bikes")
    Path(capsys.readouterr().out.strip()).write_bytes(b"another clip")
    assert _run("verify") == 1
    assert "bikes: damaged" in capsys.readouterr().out


def test_a_wrong_name_is_said_before_anything_is_fetched(home: Path) -> None:
    with pytest.raises(UnknownAssetError):
        _run("fetch", "bikes", "nothing")
    assert not home.exists()


def test_an_action_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        _run()
    assert caught.value.code == 2
