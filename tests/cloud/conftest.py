"""The specimen bundle, written and opened once. Tests of what needs the extra `cloud` are left out
where that is not installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from headtail_cloud.engines.served_tail import ServedTail, served_tails
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen

_NEED_THE_EXTRA = [
    "test_gateway_app.py",
    "test_gateway_limits.py",
    "test_remote_servers.py",
    "test_serverless_container.py",
]
collect_ignore = [] if find_spec("starlette") else _NEED_THE_EXTRA


@pytest.fixture(scope="session")
def specimen_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real bundle's folder, for reading only."""
    return write_specimen(tmp_path_factory.mktemp("cloud-bundles") / "specimen")


@pytest.fixture(scope="session")
def specimen(specimen_path: Path) -> Bundle:
    return open_bundle(specimen_path)


@pytest.fixture(scope="session")
def tails(specimen: Bundle) -> dict[str, ServedTail]:
    """Its models by name: `specimen`, `specimen:early`, `specimen:late`."""
    return {tail.name: tail for tail in served_tails(specimen)}
