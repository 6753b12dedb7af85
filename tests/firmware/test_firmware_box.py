"""NaCl's boxes on published vectors, on MicroPython and on CPython."""

import runpy

import pytest

from micropython_runner import SCRIPTS, run


@pytest.mark.system
def test_boxes_on_micropython() -> None:
    assert run("box_vectors.py") == "passed\n"


def test_boxes_in_plain_python(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPTS / "box_vectors.py"))
    assert capsys.readouterr().out == "passed\n"
