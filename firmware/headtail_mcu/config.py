"""`config.json` and `secrets.json`, checked as a whole before anything begins.

What a field may be is in the tables below: (type, default or REQUIRED, allowed values or range).
Times are in seconds. Secrets are kept apart, so that a configuration can be shown to others.
"""

import json
from binascii import unhexlify

from .errors import ConfigError

REQUIRED = object()
_MAX_BYTES = 8192
_PORT = (1, 65535)
_DAY = 86400

LINK = {
    "kind": (str, "zmtp", ("zmtp", "udp", "tcp", "serial")),
    "security": (str, "curve", ("curve", "plain", "none", "psk")),
    "host": (str, "", None),
    "port": (int, 7001, _PORT),
    "server_key": (str, "", None),
    "tls_ca": (str, "", None),
    "uart": (int, 0, (0, 7)),
    "device": (str, "", None),
    "baud": (int, 115200, (1200, 4000000)),
    "always_on": (bool, False, None),
    "heartbeat_s": (int, 20, (1, 3600)),
    "timeout_s": (int, 5, (1, 7)),
    "exposed": (bool, False, None),
}
DUTY = {
    "sample_s": (float, 1.0, (0.01, _DAY)),
    "report_s": (float, 60.0, (0.1, _DAY)),
    "batch": (int, 16, (1, 1000)),
    "deep_sleep": (bool, False, None),
    "retry_s": (float, 2.0, (0.1, 3600)),
    "retry_most_s": (float, 600.0, (1, _DAY)),
    "linger_s": (float, 3.0, (0, 60)),
}
HEAD = {
    "file": (str, "", None),
    "slots": (str, "heads", None),
    "max_bytes": (int, 131072, (1024, 16777216)),
    "trust": (list, (), None),
}
LOG = {
    "file": (str, "log.bin", None),
    "slots": (int, 256, (2, 65535)),
    "record_bytes": (int, 256, (64, 65535)),
}
APP = {"module": (str, REQUIRED, None), "options": (dict, {}, None)}
NODE = {
    "schema": (int, REQUIRED, (1, 1)),
    "name": (str, REQUIRED, None),
    "watchdog_s": (float, 8.0, (0, 8.3)),
    "healthy_s": (float, 60.0, (1, _DAY)),
    "link": (dict, REQUIRED, LINK),
    "duty": (dict, {}, DUTY),
    "head": (dict, {}, HEAD),
    "log": (dict, {}, LOG),
    "app": (dict, REQUIRED, APP),
}
SECRETS = {
    "schema": (int, REQUIRED, (1, 1)),
    "wifi_ssid": (str, "", None),
    "wifi_password": (str, "", None),
    "curve_secret": (str, "", None),
    "curve_public": (str, "", None),
    "password": (str, "", None),
    "psk": (str, "", None),
    "psk_id": (int, 0, (0, 255)),
}
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_LOCAL = ("127.", "localhost", "::1")


def load(config_path, secrets_path):
    """(config, secrets) as dictionaries with every field. Raises ConfigError."""
    config = _filled(_read(config_path), NODE, config_path, "")
    secrets = _filled(_read(secrets_path), SECRETS, secrets_path, "")
    _check_name(config["name"], config_path)
    _check_link(config["link"], secrets, config_path, secrets_path)
    _check_sleep(config["duty"], config["link"], config_path)
    return config, secrets


def _check_key(text, size, what):
    try:
        data = unhexlify(text)
    except ValueError:
        data = b""
    if len(data) != size:
        raise ConfigError(f"{what}: {2 * size} digits of hex are wanted, not {len(text)}")


def _read(path):
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError:
        raise ConfigError(f"{path} is not there: copy it to the node") from None
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES} bytes")
    try:
        values = json.loads(data)
    except ValueError:
        raise ConfigError(f"{path} is not JSON: check its commas and quotes") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not an object in braces")
    return values


def _filled(values, table, path, at):
    for name in values:
        if name not in table:
            known = ", ".join(sorted(table))
            raise ConfigError(f"{path}: {at}{name} is not known; there is {known}")
    return {
        name: _value(values.get(name, default), kind, allowed, path, at + name)
        for name, (kind, default, allowed) in table.items()
    }


def _value(value, kind, allowed, path, at):
    if value is REQUIRED:
        raise ConfigError(f"{path}: {at} is missing")
    if kind is list and isinstance(value, tuple):
        value = list(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        names = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}
        wanted = names.get(kind, "a number" if kind is float else "a whole number")
        raise ConfigError(f"{path}: {at} must be {wanted}")
    if isinstance(allowed, dict):
        return _filled(value, allowed, path, at + ".")
    if allowed is not None and kind is str and value not in allowed:
        raise ConfigError("{}: {} must be one of {}".format(path, at, ", ".join(allowed)))
    if allowed is not None and kind is not str and not allowed[0] <= value <= allowed[1]:
        raise ConfigError(f"{path}: {at} must be from {allowed[0]} to {allowed[1]}")
    return value


def _check_name(name, path):
    inner = all(c in _LETTERS + "._-" for c in name)
    if not 1 <= len(name) <= 64 or name[0] not in _LETTERS or not inner:
        raise ConfigError(f"{path}: name must have 1 to 64 letters, digits, dots, dashes")


def _check_link(link, secrets, path, secrets_path):
    kind, security = link["kind"], link["security"]
    fitting = {"zmtp": ("curve", "plain", "none"), "serial": ("psk", "none")}.get(kind, ("psk",))
    if security not in fitting:
        raise ConfigError("{}: a {} link has security {}".format(path, kind, " or ".join(fitting)))
    if kind != "serial" and not link["host"]:
        raise ConfigError(f"{path}: link.host is missing")
    guarded = security == "curve" or link["exposed"] or _is_local(link["host"])
    if kind == "zmtp" and not guarded:
        raise ConfigError(
            f"{path}: {security} shows everything to the network; use curve, or set "
            "link.exposed if something else protects it"
        )
    if link["tls_ca"] and kind != "tcp":
        raise ConfigError(f"{path}: link.tls_ca is for tcp links")
    if security == "curve":
        _check_key(link["server_key"], 32, f"{path}: link.server_key")
        _check_key(secrets["curve_secret"], 32, f"{secrets_path}: curve_secret")
        if secrets["curve_public"]:
            _check_key(secrets["curve_public"], 32, f"{secrets_path}: curve_public")
    elif security == "plain" and not secrets["password"]:
        raise ConfigError(f"{secrets_path}: password is missing")
    elif security == "psk":
        _check_key(secrets["psk"], 32, f"{secrets_path}: psk")


def _check_sleep(duty, link, path):
    if duty["deep_sleep"] and link["always_on"]:
        raise ConfigError(f"{path}: link.always_on and duty.deep_sleep exclude each other")


def _is_local(host):
    return any(host.startswith(start) for start in _LOCAL)
