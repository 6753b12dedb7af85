from pathlib import Path

import pytest

from headtail_cloud.tenants import (
    ANYBODY,
    BadNameError,
    SharedKeyError,
    UnknownKeyError,
    load_tenants,
    new_tenant,
)
from headtail_fabric.config import BadValueError


def made(path: Path, name: str, extra: str = "") -> str:
    """A tenant's key, its table written to the file."""
    table = new_tenant(name)
    with path.open("a") as file:
        file.write(table.rstrip() + f"\n{extra}\n")
    return table.splitlines()[0].removeprefix("# key: ")


def test_a_key_names_its_tenant(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    cameras = made(path, "cameras", "share = 2.0\npriority = 3\nconcurrency = 5")
    made(path, "others")
    tenants = load_tenants(path, concurrency=9)
    caller = tenants.caller(f"Bearer {cameras}")
    assert (caller.tenant, caller.priority, caller.concurrency) == ("cameras", 3, 5)
    assert tenants.shares == {"cameras": 2.0, "others": 1.0}
    assert tenants.asks_for_keys
    assert cameras not in repr(tenants)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer wrong", "Bearer " + "x" * 300]
)
def test_a_wrong_key_is_refused(tmp_path: Path, header: str | None) -> None:
    path = tmp_path / "tenants.toml"
    made(path, "cameras")
    with pytest.raises(UnknownKeyError):
        load_tenants(path, concurrency=9).caller(header)


def test_without_a_file_anybody_may_ask() -> None:
    tenants = load_tenants(None, concurrency=9)
    assert not tenants.asks_for_keys
    assert tenants.caller(None).tenant == ANYBODY
    assert tenants.caller("Bearer whatever").concurrency == 9


def test_two_tenants_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    table = new_tenant("a")
    path.write_text(table + table.replace('tenants."a"', 'tenants."b"'))
    with pytest.raises(SharedKeyError, match="'a' and 'b'"):
        load_tenants(path, concurrency=9)


@pytest.mark.parametrize("name", ["", "a b", 'x"]', "n" * 65, "\u00e4"])
def test_refuses_a_name_that_is_none(name: str) -> None:
    with pytest.raises(BadNameError):
        new_tenant(name)


def test_a_hash_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text('[tenants.a]\nkey_sha256 = "abc"\n')
    with pytest.raises(BadValueError, match="key_sha256"):
        load_tenants(path, concurrency=9)
