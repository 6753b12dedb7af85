"""The catalogue of assets, and pip's settings as pip reads them."""

import logging
import os
import sys
from pathlib import Path

import pytest

from headtail_models.assets import catalogue
from headtail_models.assets.catalogue import find, parse
from headtail_models.assets.errors import IndexSettingsError, UnknownAssetError
from headtail_models.assets.pip_settings import (
    IndexSettings,
    config_files,
    read_index_settings,
    redacted,
)

ENTRY = """
[[asset]]
name = "thing"
purpose = "tests"
kind = "pypi"
package = "thing"
version = "1.0"
filename = "thing-1.0.tar.gz"
size_bytes = 10
sha256 = "{hash}"
licence = "MIT"
[[asset.members]]
path = "thing/{member}"
size_bytes = 5
sha256 = "{hash}"
"""


def _entry(**changes: str) -> str:
    return ENTRY.format(**({"hash": "0" * 64, "member": "data.bin"} | changes))


def test_what_headtail_was_released_with() -> None:
    assert [asset.name for asset in catalogue()] == [
        "yolov3-tiny",
        "bikes",
        "yamnet",
        "mobilenet-v2",
        "imagenet-names",
        "smollm2-135m",
        "hapt",
    ]
    assert [member.file for member in find("yolov3-tiny").members] == [
        "yolov3-tiny.weights",
        "yolov3-tiny.cfg",
        "coco.names",
    ]


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UnknownAssetError, match="yolov3-tiny, bikes"):
        find("yolov4")


def test_an_entry() -> None:
    (asset,) = parse(_entry())
    assert asset.members[0].file == "data.bin"


@pytest.mark.parametrize(
    "text",
    [
        _entry(hash="0" * 63),
        _entry(hash="G" * 64),
        _entry() + "surprise = 1\n",
        _entry().replace('"pypi"', '"conda"'),
        _entry().replace("size_bytes = 10", "size_bytes = 0"),
        _entry().replace('"thing-1.0.tar.gz"', '"../thing.tar.gz"'),
        _entry(member=".."),
        _entry() + _entry(),
        _entry() + _entry()[_entry().index("[[asset.members]]") :],
    ],
)
def test_an_entry_that_makes_no_sense(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of msgspec's kind or ours
        parse(text)


def _settings(tmp_path: Path, text: str = "", **environ: str) -> IndexSettings:
    path = tmp_path / "pip.conf"
    path.write_text(text)
    return read_index_settings(environ, [path])


def test_without_settings_the_default_index_is_meant(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    assert settings == IndexSettings()
    assert repr(settings) == "<IndexSettings default>"


def test_a_configuration_file(tmp_path: Path) -> None:
    settings = _settings(
        tmp_path,
        "[global]\nindex_url = https://one.example/simple\n"
        "extra-index-url =\n    https://two.example/\n    https://three.example/\n"
        "trusted-host = one.example\n    two.example:8443\ncert = /certs.pem\n"
        "client-cert = /me.pem\nproxy = http://proxy.example:3128\ntimeout = 60\n",
    )
    assert settings == IndexSettings(
        index="https://one.example/simple",
        extra_indexes=("https://two.example/", "https://three.example/"),
        certificate="/certs.pem",
        client_certificate="/me.pem",
        proxy="http://proxy.example:3128",
        trusted_hosts=frozenset({"one.example", "two.example:8443"}),
        timeout_s=60.0,
    )


def test_the_environment_wins_and_download_wins_over_global(tmp_path: Path) -> None:
    text = (
        "[download]\nindex-url = https://download.example/\ncert = /download.pem\n"
        "[global]\nindex-url = https://global.example/\ntimeout = 5\n"
        "[install]\nindex-url = https://install.example/\n"
    )
    assert _settings(tmp_path, text).index == "https://download.example/"
    settings = _settings(
        tmp_path, text, PIP_INDEX_URL="https://env.example/", PIP_CERT="", PIP_DEFAULT_TIMEOUT="9"
    )
    assert settings.index == "https://env.example/"
    assert settings.certificate == "/download.pem"
    assert settings.timeout_s == 5.0


def test_later_files_win(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"[global]\nindex-url = https://{name}.example/\n")
    files = [tmp_path / "one", tmp_path / "two", tmp_path / "absent"]
    assert read_index_settings({}, files).index == "https://two.example/"


def test_indexes_on_the_disk_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        settings = _settings(
            tmp_path, PIP_EXTRA_INDEX_URL="file:///srv/wheels https://two.example/simple"
        )
    assert settings.extra_indexes == ("https://two.example/simple",)
    assert "file:///srv/wheels" in caplog.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[global]\nindex-url = file:///srv/simple\n", "not on a web server"),
        ("[global]\nno-index = true\n", "no-index"),
        ("[global]\ntimeout = soon\n", "timeout"),
        ("index-url = https://one.example/\n", "can't be read"),
    ],
)
def test_settings_that_can_not_be_used(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(IndexSettingsError, match=words):
        _settings(tmp_path, text)


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    settings = _settings(tmp_path, PIP_INDEX_URL="https://me:secret@one.example:8443/simple")
    assert "secret" not in repr(settings)
    assert redacted("https://me:secret@one.example:8443/simple?x=1") == (
        "https://one.example:8443/simple?x=1"
    )


def test_where_pip_keeps_its_files(tmp_path: Path) -> None:
    environ = {"HOME": "/home/me", "XDG_CONFIG_DIRS": "/etc/one:/etc/two"}
    usual = [
        "/etc/one/pip/pip.conf",
        "/etc/two/pip/pip.conf",
        "/etc/pip.conf",
        "/home/me/.pip/pip.conf",
        "/home/me/.config/pip/pip.conf",
        f"{sys.prefix}/pip.conf",
    ]
    assert [str(path) for path in config_files(environ)] == usual
    named = tmp_path / "named.conf"
    named.touch()
    found = [str(path) for path in config_files(environ | {"PIP_CONFIG_FILE": str(named)})]
    assert found == [*usual[:3], usual[5], str(named)]
    assert config_files(environ | {"PIP_CONFIG_FILE": os.devnull}) == ()
