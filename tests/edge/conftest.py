"""The specimen bundle, written once."""

from pathlib import Path

import pytest

from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen


@pytest.fixture(scope="session")
def specimen_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real bundle's folder, for reading only."""
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


@pytest.fixture(scope="session")
def specimen(specimen_path: Path) -> Bundle:
    return open_bundle(specimen_path)


@pytest.fixture(scope="session")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle with entropy-coded codecs at its cut `code`, for reading only."""
    return open_bundle(write_specimen(tmp_path_factory.mktemp("bundles") / "gated", gated=True))
