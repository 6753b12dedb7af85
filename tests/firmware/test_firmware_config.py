"""A node's settings: what is right, and what each mistake is told."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

config = importlib.import_module("headtail_mcu.config")
errors = importlib.import_module("headtail_mcu.errors")

KEY = "ab" * 32
CONFIG = {
    "schema": 1,
    "name": "door-1",
    "link": {"kind": "zmtp", "host": "192.168.1.10", "server_key": KEY},
    "app": {"module": "microphone"},
}
SECRETS = {"schema": 1, "curve_secret": KEY}
PSK = {"kind": "udp", "security": "psk", "host": "gateway.lan"}


def load(folder: Path, changes: dict[str, Any], secrets: dict[str, Any] | None = None) -> Any:
    paths = folder / "config.json", folder / "secrets.json"
    paths[0].write_text(json.dumps({**CONFIG, **changes}))
    paths[1].write_text(json.dumps(SECRETS if secrets is None else {"schema": 1, **secrets}))
    return config.load(str(paths[0]), str(paths[1]))


def test_what_is_not_set_has_a_default(tmp_path: Path) -> None:
    settings, secrets = load(tmp_path, {"duty": {"sample_s": 2}})
    assert settings["duty"]["sample_s"] == 2.0
    assert settings["duty"]["batch"] == 16
    assert settings["link"]["port"] == 7001
    assert settings["app"] == {"module": "microphone", "options": {}}
    assert secrets["psk"] == ""


@pytest.mark.parametrize(
    ("changes", "secrets", "told"),
    [
        ({"nmae": "x"}, None, "nmae is not known; there is app, duty"),
        ({"duty": {"sample": 3}}, None, "duty.sample is not known"),
        ({"schema": 2}, None, "schema must be from 1 to 1"),
        ({"name": ""}, None, "name must have 1 to 64 letters"),
        ({"name": "a b"}, None, "name must have 1 to 64 letters"),
        ({"app": {}}, None, "app.module is missing"),
        ({"link": 3}, None, "link must be an object"),
        ({"duty": {"batch": "many"}}, None, "duty.batch must be a whole number"),
        ({"duty": {"batch": True}}, None, "duty.batch must be a whole number"),
        ({"duty": {"batch": 0}}, None, "duty.batch must be from 1 to 1000"),
        ({"duty": {"deep_sleep": 1}}, None, "duty.deep_sleep must be true or false"),
        ({"watchdog_s": 60}, None, "watchdog_s must be from 0 to 8.3"),
        ({"link": {**CONFIG["link"], "kind": "lora"}}, None, "one of zmtp, udp, tcp, serial"),  # type: ignore[dict-item]
        ({"link": {**PSK, "security": "curve"}}, None, "a udp link has security psk"),
        ({"link": {"kind": "zmtp", "server_key": KEY}}, None, "link.host is missing"),
        ({"link": {"kind": "zmtp", "host": "h"}}, None, "link.server_key: 64 digits of hex"),
        ({}, {}, "curve_secret: 64 digits of hex"),
        ({}, {"curve_secret": KEY, "curve_public": "zz" * 32}, "curve_public: 64 digits"),
        ({"link": PSK}, {}, "psk: 64 digits of hex are wanted, not 0"),
        ({"link": {**PSK, "tls_ca": "ca.der"}}, {"psk": KEY}, "link.tls_ca is for tcp links"),
        (
            {"link": {"kind": "zmtp", "security": "plain", "host": "far"}},
            {"password": "x"},
            "plain shows everything to the network",
        ),
        (
            {"link": {"kind": "zmtp", "security": "plain", "host": "127.0.0.1"}},
            {},
            "password is missing",
        ),
        (
            {"link": {**PSK, "always_on": True}, "duty": {"deep_sleep": True}},
            {"psk": KEY},
            "exclude each other",
        ),
    ],
)
def test_each_mistake_is_named(
    tmp_path: Path, changes: dict[str, Any], secrets: dict[str, Any] | None, told: str
) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        load(tmp_path, changes, secrets)
    assert told in str(caught.value)


def test_files_that_are_not_settings(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for content, told in (
        ("{", "is not JSON"),
        ("[]", "not an object"),
        (" " * 9000, "larger than 8192"),
    ):
        path.write_text(content)
        with pytest.raises(errors.ConfigError, match=told):
            config.load(str(path), str(path))
    with pytest.raises(errors.ConfigError, match="copy it to the node"):
        config.load(str(tmp_path / "none.json"), str(path))
