"""Who may connect to a gateway, in a file that may change while it runs.

    schema = 1

    [nodes."door-1"]
    public = "..."            # CURVE: its public key, Z85
    password_sha256 = "..."   # PLAIN: the hash of its password, hex
    psk = "..."               # sealed packets: 32 bytes, hex
    psk_id = 7                # 0 to 255, one node each

    [nodes."bench"]           # nothing to prove: only where links ask for nothing, on this machine

It holds pre-shared keys, so nobody but its owner may read it. `headtail node new` adds to it.
"""

import fcntl
import hashlib
import hmac
import logging
import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from headtail_fabric import config
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.keys import check_name, check_public, sync_directory, write_new
from headtail_fabric.logs import fields

MAX_NODES: Final = 4096
_HEADER: Final = "# Headtail nodes, kept by `headtail node new`; comments get lost.\n"

log = logging.getLogger(__name__)


class NodeBookError(ConfigError):
    """The list of nodes can't be used as it is. Correct the file where the message says; a running
    gateway goes on with the last good one until then."""


class NodeBookExposedError(NodeBookError):
    """Other users of this machine may read the nodes' secrets. Run the `chmod` that the message
    names; if somebody may have read it already, give the nodes new keys."""


class NodeKnownError(ConfigError):
    """A node of this name is in the list. Choose another name, or remove its table from the file
    first."""


class NodeBookWriteError(ResourceError):
    """The machine refused to write the list of nodes; nothing has changed. Check the folder's
    owner, its permissions and the space on the disk."""


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one node proves itself with; any of them will do. With none it may come in only where
    a link asks for nothing."""

    public: str | None = None
    password_sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    psk: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    psk_id: Annotated[int, Meta(ge=0, le=255)] | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True):
    schema: Literal[1]
    nodes: dict[str, NodeEntry] = {}


class Roster:
    """The nodes as a gateway looks them up."""

    def __init__(self, entries: Mapping[str, NodeEntry]) -> None:
        self.entries = dict(entries)
        self._by_public = {e.public: name for name, e in entries.items() if e.public is not None}
        self._by_psk_id = {e.psk_id: name for name, e in entries.items() if e.psk is not None}

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def is_open(self, name: str) -> bool:
        """Whether a node has nothing to prove itself with, and may come where nobody asks."""
        return self.entries.get(name) == NodeEntry()

    def by_public(self, public: str) -> str | None:
        """Whose CURVE key (Z85) that is."""
        return self._by_public.get(public)

    def by_password(self, name: str, password: bytes) -> bool:
        """Whether that is the node's PLAIN password."""
        entry = self.entries.get(name)
        known = entry.password_sha256 if entry is not None else None
        found = hashlib.sha256(password).hexdigest()
        return hmac.compare_digest(found, known or "")

    def by_psk_id(self, psk_id: int) -> tuple[str, bytes] | None:
        """(name, pre-shared key)."""
        name = self._by_psk_id.get(psk_id)
        psk = self.entries[name].psk if name is not None else None
        return None if name is None or psk is None else (name, bytes.fromhex(psk))


def read_roster(path: Path) -> Roster:
    """Raises ConfigError: NodeBookExposedError, NodeBookError, and what `config.read` does."""
    stored = config.parse(_File, config.read(path), source=str(path))
    _check_mode(path)
    if len(stored.nodes) > MAX_NODES:
        raise NodeBookError(f"{path} has {len(stored.nodes)} nodes, at most {MAX_NODES}")
    taken: dict[object, str] = {}
    for name, entry in stored.nodes.items():
        _check_entry(path, name, entry)
        for unique in (entry.public, entry.psk, entry.psk_id if entry.psk else None):
            if unique is not None and taken.setdefault(unique, name) != name:
                raise NodeBookError(f"{path}: {taken[unique]} and {name} have the same key or id")
    return Roster(stored.nodes)


def _check_entry(path: Path, name: str, entry: NodeEntry) -> None:
    try:
        check_name(name)
        if entry.public is not None:
            check_public(entry.public)
    except ConfigError as error:
        raise NodeBookError(f"{path}: node {name[:80]!r}: {error.message}") from None
    if (entry.psk is None) != (entry.psk_id is None):
        raise NodeBookError(f"{path}: node {name!r}: psk and psk_id go together")


def _check_mode(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise NodeBookError(f"{path}: {error.strerror}") from None
    if mode & 0o077:
        raise NodeBookExposedError(
            f"{path} has mode {mode:04o}: run `chmod 600 {shlex.quote(str(path))}`", path=path
        )


def add_node(path: Path, name: str, entry: NodeEntry) -> NodeEntry:
    """Add a node to the file at `path`, which is made when there is none; an entry with a
    pre-shared key gets the lowest free id. Raises NodeKnownError, NodeBookError,
    NodeBookWriteError, BadNameError."""
    check_name(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NodeBookWriteError(f"{path}: {error.strerror}", path=path) from None
    with os.fdopen(lock, "w"):
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = read_roster(path).entries if path.exists() else {}
        if name in entries:
            raise NodeKnownError(f"{name} is in {path}")
        if entry.psk is not None and entry.psk_id is None:
            entry = msgspec.structs.replace(entry, psk_id=_free_id(path, entries))
        _write(path, {**entries, name: entry})
    return entry


def _free_id(path: Path, entries: Mapping[str, NodeEntry]) -> int:
    taken = {entry.psk_id for entry in entries.values()}
    free = next((number for number in range(256) if number not in taken), None)
    if free is None:
        raise NodeBookError(f"{path} has 256 nodes with pre-shared keys: use a second gateway")
    return free


def _write(path: Path, entries: Mapping[str, NodeEntry]) -> None:
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        write_new(fresh, _text(entries), mode=0o600)
        fresh.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise NodeBookWriteError(f"{path}: {error.strerror}", path=path) from None


def _text(entries: Mapping[str, NodeEntry]) -> str:
    # Names, Z85 and hex hold no character that TOML would want escaped.
    lines = [_HEADER, "schema = 1\n"]
    for name, entry in entries.items():
        lines.append(f'\n[nodes."{name}"]\n')
        for key, value in msgspec.to_builtins(entry).items():
            lines.append(f"{key} = {value}\n" if isinstance(value, int) else f'{key} = "{value}"\n')
    return "".join(lines)


class NodeBook:
    """The roster as the file has it now. A file that is missing, broken or open to others keeps
    the last good one in force, and is reported once."""

    def __init__(self, path: Path) -> None:
        """Raises what `read_roster` does."""
        self._path = path
        self._stamp = self._current_stamp()
        self.roster = read_roster(path)

    def follow(self) -> bool:
        """Look at the file again; whether the roster has changed."""
        stamp = self._current_stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.roster = read_roster(self._path)
        except ConfigError as error:
            log.error("list of nodes not taken over", extra=fields(reason=error.message))
            return False
        log.info("list of nodes taken over", extra=fields(nodes=len(self.roster.entries)))
        return True

    def _current_stamp(self) -> tuple[int, int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
