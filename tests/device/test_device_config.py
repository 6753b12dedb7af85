"""What a device can be told."""

from pathlib import Path

import pytest

from headtail_device.config import DeviceConfig
from headtail_device.placement_config import MODES
from headtail_fabric import config, config_example
from headtail_fabric.errors import ConfigError

NEEDED = {"source": "clip.mp4", "bundle": "tiny", "edge.endpoint": "tcp://127.0.0.1:5555"}


def load(**flags: object) -> DeviceConfig:
    given = {key.replace("__", "."): value for key, value in flags.items()}
    return config.load(DeviceConfig, None, {**NEEDED, **given})


def test_the_defaults() -> None:
    device = load()
    assert (device.mode, device.pace, device.late, device.deadline_s) == ("edge", "fast", None, 2)
    assert device.edge.max_in_flight == 4
    assert not device.edge.push_bundles
    assert (device.gates.exit_point, device.gates.filter) == ("", True)


def test_a_file_with_every_table(tmp_path: Path) -> None:
    file = tmp_path / "device.toml"
    file.write_text(
        """
        source = "0"
        bundle = "tiny"
        metrics_port = 9100
        late = "expire"
        [edge]
        endpoint = "tcp://edge:5555"
        key = "device.key"
        server_key = "edge.pub"
        [way]
        cut = "input"
        codec = "webp"
        [gates]
        exit_point = "off"
        filter = false
        [output]
        json = "-"
        video = "out.mp4"
        """
    )
    device = config.load(DeviceConfig, file, {"way.quality": 50})
    assert device.edge.key == tmp_path / "device.key"
    assert device.output.video == tmp_path / "out.mp4"
    assert (device.way.codec, device.way.quality) == ("webp", 50)
    assert (device.gates.exit_point, device.gates.filter) == ("off", False)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"source": ""}, "source and bundle must not be empty"),
        ({"edge__endpoint": ""}, r"edge\.endpoint is not set"),
        ({"edge__server_key": "x" * 40}, "belong together"),
        ({"edge__key": Path("a.key")}, "belong together"),
        ({"way__quality": 0}, r"way\.quality"),
        ({"deadline_s": 0.0}, "deadline_s"),
        ({"gates__exit_point": "x" * 65}, r"gates\.exit_point"),
        ({"edge__max_in_flight": 0}, "max_in_flight"),
        ({"late": "never"}, "expected one of"),
        ({"every": 0}, "every"),
        ({"mode": "auto", "edge__endpoint": ""}, r"mode is auto, but edge\.endpoint"),
        ({"controller__max_drop": -0.1}, "max_drop"),
        ({"controller__pictures": ["jpeg"]}, "pictures"),
        ({"controller__pictures": ["png:90:0.1"]}, "pictures"),
        ({"spool__share": 0.0}, r"spool\.share"),
        ({"spool__folder": Path("s"), "mode": "local"}, "nothing would be sent"),
        ({"metrics_port": 70_000}, "metrics_port"),
        ({"way__cutt": "a"}, r"did you mean way\.cut"),
    ],
)
def test_what_makes_no_sense_is_refused(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**flags)


@pytest.mark.parametrize(
    ("flags", "goal"),
    [
        ({}, None),
        ({"mode": "local"}, None),
        ({"mode": "auto"}, "lowest-latency"),
        ({"mode": "auto", "controller__goal": "deadline"}, "deadline"),
        ({"mode": "lowest-bytes", "controller__goal": "deadline"}, "lowest-bytes"),
        ({"mode": "fixed"}, "fixed"),
    ],
)
def test_a_mode_is_an_aim_or_leaves_nothing_to_choose(
    flags: dict[str, object], goal: str | None
) -> None:
    device = load(**flags)
    assert device.goal == goal
    assert device.has_edge is (device.mode != "local")


def test_every_mode_can_be_asked_for() -> None:
    assert [load(mode=mode).mode for mode in MODES] == list(MODES)


def test_a_device_that_stays_local_needs_no_edge() -> None:
    assert load(mode="local", edge__endpoint="").mode == "local"


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "device.toml"
    file.write_text(config_example.example(DeviceConfig))
    assert config.load(DeviceConfig, file, NEEDED) == load()
