"""Names of files in a bundle."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_models.bundle.errors import DuplicateEntryError, UnsafePathError
from headtail_models.bundle.paths import check_path, check_paths


@pytest.mark.parametrize(
    "path", ["full.onnx", "head-L7.onnx", "mcu/head.bin", "a/b/c/d", "_x", "9"]
)
def test_plain_names_pass(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "../weights.bin",
        "mcu/../../weights.bin",
        "mcu/./head.bin",
        "mcu//head.bin",
        "mcu/",
        "/etc/passwd",
        "//server/share",
        "..\\weights.bin",
        "mcu\\head.bin",
        "C:weights.bin",
        "C:/weights.bin",
        "weights.bin\x00.txt",
        "weights.bin\n",
        "weights .bin",
        ".hidden",
        "weights.bin.",
        "w\u0435ights.bin",
        "~root",
        "a/b/c/d/e",
        "x" * 201,
    ],
)
def test_others_are_unsafe(path: str) -> None:
    with pytest.raises(UnsafePathError) as caught:
        check_path(path)
    assert caught.value.facts["path"] == path


@given(st.text(alphabet=string.printable + "\u2215\uff0e\u202e", max_size=30))
def test_what_passes_stays_below_its_folder(path: str) -> None:
    try:
        check_path(path)
    except UnsafePathError:
        return
    assert not path.startswith("/")
    assert "\\" not in path
    assert all(part and part.strip(". ") == part for part in path.split("/"))


@pytest.mark.parametrize(
    "paths",
    [
        ["a", "a"],
        ["Weights.bin", "weights.BIN"],
        ["mcu", "mcu/head.bin"],
        ["mcu/head.bin", "MCU"],
        ["a/b", "a/b/c"],
    ],
)
def test_a_name_that_comes_twice(paths: list[str]) -> None:
    with pytest.raises(DuplicateEntryError):
        check_paths(paths)


def test_different_names_pass() -> None:
    check_paths(["a", "b/a", "b/c", "ab"])
