"""Processes of the `headtail` command keep numpy to one thread, unless they are told otherwise."""

import os
import subprocess
import sys

import pytest

NAME = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize(("given", "seen"), [(None, "1"), ("3", "3")])
def test_threads_of_products(given: str | None, seen: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != NAME}
    if given is not None:
        environment[NAME] = given
    code = f"import os, headtail.cli; print(os.environ[{NAME!r}])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == seen
