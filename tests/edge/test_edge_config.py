"""An edge's settings: their defaults, and what is refused before anything starts."""

import threading
from io import StringIO
from pathlib import Path

import pytest

from headtail_edge.config import EdgeConfig
from headtail_edge.daemon import HalfSecuredError, NothingToServeError, serve
from headtail_edge.tenants import LimitsConfig, TenantConfig
from headtail_fabric import config, config_example
from headtail_fabric.config import BadValueError, UnknownKeyError
from headtail_fabric.zap import ExposedEndpointError


def test_the_example_is_the_defaults() -> None:
    assert (
        config.parse(EdgeConfig, config_example.example(EdgeConfig), source="example")
        == EdgeConfig()
    )


def test_a_file_and_flags_make_one_value(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(
        'bundles = ["a", "b"]\nkey = "edge.key"\nworkers = 3\n[push]\naccept_from = "operators"\n'
    )
    settings = config.load(EdgeConfig, file, {"workers": 4, "push.max_bundles": 2, "bind": None})
    assert settings.bundles == ("a", "b")
    assert settings.key == tmp_path / "edge.key"
    assert settings.workers == 4
    assert (settings.push.accept_from, settings.push.max_bundles) == ("operators", 2)
    assert settings.bind == EdgeConfig().bind


@pytest.mark.parametrize(
    "wrong", ["workers = 0", "max_batch = 1000", "max_wait_ms = -1", '[push]\naccept_from = "all"']
)
def test_values_have_limits(wrong: str) -> None:
    with pytest.raises(BadValueError):
        config.parse(EdgeConfig, wrong, source="test")


def test_tables_of_tenants_limits_and_canaries(tmp_path: Path) -> None:
    settings = config.parse(
        EdgeConfig,
        """
worker_kind = "process"
watch = "bundles"
[limits]
rate_per_s = 30
[tenants.lab]
members = ["cam-*"]
weight = 2.0
[canary]
"yolov3-tiny-coco-1.2" = 0.1
""",
        source="test",
        folder=tmp_path,
    )
    assert settings.tenants == {"lab": TenantConfig(members=("cam-*",), weight=2.0)}
    assert settings.limits == LimitsConfig(rate_per_s=30.0)
    assert settings.canary == {"yolov3-tiny-coco-1.2": 0.1}
    assert settings.watch == tmp_path / "bundles"


@pytest.mark.parametrize(
    "wrong",
    [
        "[tenants.lab]\nmembers = []\nweight = 0",
        '[canary]\n"a-1.0" = 1.5',
        "[limits]\nrate_per_s = 0",
        'worker_kind = "fibre"',
    ],
)
def test_values_in_tables_have_limits_too(wrong: str) -> None:
    with pytest.raises(BadValueError):
        config.parse(EdgeConfig, wrong, source="test")


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownKeyError, match="queue_limit"):
        config.parse(EdgeConfig, "que_limit = 3", source="test")


def start(settings: EdgeConfig) -> None:
    stop = threading.Event()
    stop.set()
    serve(settings, stop=stop, out=StringIO())


def test_an_edge_without_bundles_says_so() -> None:
    with pytest.raises(NothingToServeError) as caught:
        start(EdgeConfig())
    assert "--bundle" in caught.value.advice


@pytest.mark.parametrize("alone", ["key", "allow_list"])
def test_key_and_allow_list_go_together(alone: str, tmp_path: Path) -> None:
    settings = config.load(EdgeConfig, None, {"bundles": ["x"], alone: tmp_path / "x"})
    with pytest.raises(HalfSecuredError, match=f"{alone} is given alone"):
        start(settings)


def test_operators_need_a_list_that_says_who_they_are() -> None:
    settings = config.load(EdgeConfig, None, {"push.accept_from": "operators"})
    with pytest.raises(HalfSecuredError, match="operators"):
        start(settings)


def test_without_an_allow_list_it_binds_to_this_machine_only() -> None:
    settings = config.load(EdgeConfig, None, {"bundles": ["x"], "bind": "tcp://0.0.0.0:0"})
    with pytest.raises(ExposedEndpointError):
        start(settings)
