"""For every test."""

import logging
import os
from collections.abc import Iterator

import pytest

# Before torch or numpy is imported: on cores that others use, threads of one process wait for each
# other, and a test that takes a second takes minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def log_level_as_it_was() -> Iterator[None]:
    """A test that runs a command sets the level of all logs; the next one counts its records."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)
