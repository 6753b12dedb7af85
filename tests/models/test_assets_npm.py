"""Packages by a stand-in for npm."""

import hashlib
import stat
from pathlib import Path

import pytest

from headtail_models.assets.catalogue import Asset, Member
from headtail_models.assets.errors import NotPublishedError, NpmMissingError, UnreachableError
from headtail_models.assets.npm import Npm
from headtail_models.assets.progress import Silence

PACKS = """#!/bin/sh
echo "$@" > "$0.said"
while [ "$1" != --pack-destination ]; do shift; done
printf content > "$2/some-thing-1.0.tgz"
"""
REFUSES = """#!/bin/sh
echo "npm error code {code}" >&2
exit 1
"""


def _asset() -> Asset:
    return Asset(
        name="thing",
        purpose="tests",
        kind="npm",
        package="@some/thing",
        version="1.0",
        filename="some-thing-1.0.tgz",
        size_bytes=7,
        sha256=hashlib.sha256(b"content").hexdigest(),
        licence="MIT",
        members=(Member(path="package/data.bin", size_bytes=1, sha256="0" * 64),),
    )


def _npm(folder: Path, script: str) -> Npm:
    path = folder / "npm"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Npm(str(path))


def test_the_archive_is_packed_and_no_script_is_run(tmp_path: Path) -> None:
    part = tmp_path / "thing.part"
    _npm(tmp_path, PACKS).download(_asset(), part, progress=Silence())
    assert part.read_bytes() == b"content"
    said = (tmp_path / "npm.said").read_text()
    assert said.startswith("pack @some/thing@1.0 --ignore-scripts --pack-destination")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["npm", "npm.said", "thing.part"]


@pytest.mark.parametrize("code", ["E404", "ETARGET"])
def test_a_package_that_is_not_there(tmp_path: Path, code: str) -> None:
    npm = _npm(tmp_path, REFUSES.format(code=code))
    with pytest.raises(NotPublishedError, match="@some/thing@1"):
        npm.download(_asset(), tmp_path / "part", progress=Silence())


def test_a_registry_that_can_not_be_reached(tmp_path: Path) -> None:
    npm = _npm(tmp_path, REFUSES.format(code="ENOTFOUND"))
    with pytest.raises(UnreachableError, match="ENOTFOUND"):
        npm.download(_asset(), tmp_path / "part", progress=Silence())


def test_npm_that_packs_nothing(tmp_path: Path) -> None:
    npm = _npm(tmp_path, "#!/bin/sh\n")
    with pytest.raises(NotPublishedError, match="0 archives"):
        npm.download(_asset(), tmp_path / "part", progress=Silence())


def test_no_npm(tmp_path: Path) -> None:
    with pytest.raises(NpmMissingError, match="no-such-npm"):
        Npm("no-such-npm").download(_asset(), tmp_path / "part", progress=Silence())
