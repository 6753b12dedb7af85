"""The list of nodes: what it refuses, and that a running gateway follows it."""

import hashlib
from pathlib import Path

import pytest

from headtail_edge.gateway.links.zmtp import CURVE_DOMAIN, PLAIN_DOMAIN, judge_node
from headtail_edge.gateway.node_book import (
    NodeBook,
    NodeBookError,
    NodeBookExposedError,
    NodeEntry,
    NodeKnownError,
    Roster,
    add_node,
    read_roster,
)
from headtail_fabric import keys
from headtail_fabric.errors import ConfigError

PSK = "ab" * 32


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text("schema = 1\n" + text)
    path.chmod(mode)
    return path


def test_nodes_are_added_and_found(tmp_path: Path) -> None:
    path, pair = tmp_path / "nodes.toml", keys.generate("door-1")
    add_node(path, "door-1", NodeEntry(public=pair.public))
    assert add_node(path, "field-7", NodeEntry(psk=PSK)).psk_id == 0
    assert add_node(path, "field-8", NodeEntry(psk="cd" * 32)).psk_id == 1
    hashed = hashlib.sha256(b"secret").hexdigest()
    add_node(path, "bench", NodeEntry(password_sha256=hashed))
    add_node(path, "open", NodeEntry())
    roster = read_roster(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert roster.by_public(pair.public) == "door-1"
    assert roster.by_psk_id(1) == ("field-8", bytes.fromhex("cd" * 32))
    assert roster.by_psk_id(9) is None
    assert roster.by_password("bench", b"secret")
    assert not roster.by_password("bench", b"guess")
    assert not roster.by_password("door-1", b"")
    assert not roster.by_password("nobody", b"")
    assert [name for name in roster.entries if roster.is_open(name)] == ["open"]
    with pytest.raises(NodeKnownError):
        add_node(path, "bench", NodeEntry())
    with pytest.raises(ConfigError, match="not a name"):
        add_node(path, "../x", NodeEntry())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[nodes."a"]\npsk = "xyz"\n', "psk"),
        (f'[nodes."a"]\npsk = "{PSK}"\n', "psk and psk_id go together"),
        ('[nodes."a"]\npublic = "short"\n', "5 characters"),
        ('[nodes."a b"]\n', "not a name"),
        (
            f'[nodes.a]\npsk = "{PSK}"\npsk_id = 1\n[nodes.b]\npsk = "{PSK}"\npsk_id = 2\n',
            "same key",
        ),
        (
            f'[nodes.a]\npsk = "{PSK}"\npsk_id = 1\n[nodes.b]\npsk = "{"cd" * 32}"\npsk_id = 1\n',
            "same key or id",
        ),
        ('[nodes."a"]\nsecret = 1\n', "unknown key"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_roster(write(tmp_path / "nodes.toml", text))


def test_others_may_not_read_the_keys(tmp_path: Path) -> None:
    with pytest.raises(NodeBookExposedError, match="chmod 600"):
        read_roster(write(tmp_path / "nodes.toml", "", mode=0o644))


def test_changes_are_followed_and_mistakes_are_not(tmp_path: Path) -> None:
    path = write(tmp_path / "nodes.toml", "[nodes.a]\n")
    book = NodeBook(path)
    assert not book.follow()
    write(path, "[nodes.a]\n[nodes.b]\n")
    assert book.follow()
    assert "b" in book.roster
    write(path, "[nodes.a\n")
    assert not book.follow()
    path.unlink()
    assert not book.follow()
    assert "b" in book.roster
    with pytest.raises(ConfigError):
        NodeBook(path)


def test_no_more_nodes_than_there_are_key_ids(tmp_path: Path) -> None:
    tables = "".join(f'[nodes.n{n}]\npsk = "{n:064x}"\npsk_id = {n}\n' for n in range(256))
    path = write(tmp_path / "nodes.toml", tables)
    with pytest.raises(NodeBookError, match="second gateway"):
        add_node(path, "one-more", NodeEntry(psk=PSK))


def test_who_may_shake_hands() -> None:
    pair = keys.generate("door-1")
    hashed = hashlib.sha256(b"secret").hexdigest()
    roster = Roster(
        {"door-1": NodeEntry(public=pair.public), "bench": NodeEntry(password_sha256=hashed)}
    )

    def status(domain: str, mechanism: bytes, *credentials: bytes) -> tuple[bytes, bytes]:
        request = [b"1.0", b"9", domain.encode(), b"1.2.3.4", b"", mechanism, *credentials]
        reply = judge_node(request, roster=roster).reply
        assert reply[1] == b"9"
        return reply[2], reply[4]

    raw = bytes.fromhex(keys_hex(pair.public))
    assert status(CURVE_DOMAIN, b"CURVE", raw) == (b"200", b"door-1")
    assert status(CURVE_DOMAIN, b"CURVE", bytes(32)) == (b"400", b"")
    assert status(PLAIN_DOMAIN, b"PLAIN", b"bench", b"secret") == (b"200", b"bench")
    assert status(PLAIN_DOMAIN, b"PLAIN", b"bench", b"guess") == (b"400", b"")
    assert status(PLAIN_DOMAIN, b"PLAIN", b"door-1", b"") == (b"400", b"")
    # Neither domain takes what belongs to the other, nor anybody who proves nothing.
    assert status(CURVE_DOMAIN, b"PLAIN", b"bench", b"secret") == (b"400", b"")
    assert status(PLAIN_DOMAIN, b"CURVE", raw) == (b"400", b"")
    assert status(PLAIN_DOMAIN, b"NULL") == (b"400", b"")
    assert judge_node([], roster=roster).reply[2] == b"400"


def keys_hex(public: str) -> str:
    from headtail_edge.gateway.links.zmtp import key_hex

    return key_hex(public)
