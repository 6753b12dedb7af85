"""Who may connect: enrolled public keys in a file that may change while the server runs.

    schema = 1

    [members."cam-1"]
    public = "..."            # Z85, 40 characters
    role = "device"           # or "operator"
    added = "2026-05-01"

`enrol` and `revoke` rewrite the file: under a lock, so that two processes don't lose each other's
changes, and by a rename, so that a reader or a power cut meets the old file or the new one.
"""

import fcntl
import logging
import os
import shlex
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

import msgspec

from headtail_fabric import config
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.keys import check_name, check_public, sync_directory, write_new
from headtail_fabric.logs import fields

MAX_MEMBERS: Final = 16_384

_HEADER: Final = "# Headtail allow-list, kept by `headtail keys enrol|revoke`; comments get lost.\n"

log = logging.getLogger(__name__)


class AllowListError(ConfigError):
    """The allow-list can't be used as it is. Correct the file where the message says; a running
    server goes on with the last good list until then."""


class AllowListExposedError(AllowListError):
    """Anybody on this machine may change the allow-list, and so let themselves in. Run the `chmod`
    that the message names, and look through the list."""


class AlreadyEnrolledError(ConfigError):
    """This name or this key is on the allow-list. One key has one name and one name one key: to
    replace a key, revoke the name first (`headtail keys revoke NAME`)."""


class NotEnrolledError(ConfigError):
    """Nobody of this name is on the allow-list. `headtail keys show` lists who is."""


class AllowListFullError(ConfigError):
    """The allow-list has as many members as one server takes. Revoke some, or use a second edge
    with a list of its own."""


class AllowListWriteError(ResourceError):
    """The machine refused to write the allow-list; nothing has changed. Check the folder's owner,
    its permissions and the space on the disk."""


class Role(StrEnum):
    """What a member may do: a device asks for results, an operator also looks and controls."""

    DEVICE = "device"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One enrolled key (Z85) and who it stands for."""

    name: str
    public: str
    role: Role
    added: date


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    public: str
    role: Role
    added: date


class _File(msgspec.Struct, frozen=True, kw_only=True):
    # Named so that a later version can refuse or convert the file.
    schema: Literal[1]
    members: dict[str, _Entry] = {}


def default_path() -> Path:
    """`headtail/allow.toml` in the user's configuration folder."""
    return config.home() / "allow.toml"


def read_members(path: Path) -> dict[str, Member]:
    """Members by name, in the file's order.

    Raises ConfigError: ConfigMissingError for no file, AllowListExposedError, AllowListError for
    a name or key that can't be one and for a key under two names, else what `config.load` raises.
    """
    stored = config.parse(_File, config.read(path), source=str(path))
    _check_mode(path)
    if len(stored.members) > MAX_MEMBERS:
        raise AllowListError(f"{path} has {len(stored.members)} members, at most {MAX_MEMBERS}")
    names: dict[str, str] = {}
    for name, entry in stored.members.items():
        try:
            other = names.setdefault(check_public(entry.public), check_name(name))
        except ConfigError as error:
            raise AllowListError(f"{path}: member {name[:80]!r}: {error.message}") from None
        if other != name:
            raise AllowListError(f"{path}: {other} and {name} have the same key")
    return {
        name: Member(name=name, public=entry.public, role=entry.role, added=entry.added)
        for name, entry in stored.members.items()
    }


def _check_mode(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise AllowListError(f"{path}: {error.strerror}") from None
    if mode & stat.S_IWOTH:
        raise AllowListExposedError(
            f"{path} has mode {mode:04o}: run `chmod o-w {shlex.quote(str(path))}`", path=path
        )


def enrol(path: Path, member: Member) -> None:
    """Add `member` to the list at `path`, which is made when there is none.

    Raises BadNameError, BadKeyError, AlreadyEnrolledError, AllowListFullError,
    AllowListWriteError, and what `read_members` raises.
    """
    check_name(member.name)
    check_public(member.public)
    with _change(path) as members:
        for other in members.values():
            if other.name == member.name:
                raise AlreadyEnrolledError(f"{member.name} is enrolled since {other.added}")
            if other.public == member.public:
                raise AlreadyEnrolledError(f"this key is enrolled as {other.name}")
        if len(members) >= MAX_MEMBERS:
            raise AllowListFullError(f"{path} has {MAX_MEMBERS} members")
        members[member.name] = member


def revoke(path: Path, name: str) -> Member:
    """Take the member of that name off the list at `path`.

    Raises NotEnrolledError, AllowListWriteError, and what `read_members` raises.
    """
    with _change(path) as members:
        if name not in members:
            nearest = get_close_matches(name, members, 1)
            hint = f", did you mean {nearest[0]}?" if nearest else ""
            raise NotEnrolledError(f"nobody is enrolled as {name[:80]!r}{hint}")
        return members.pop(name)


@contextmanager
def _change(path: Path) -> Iterator[dict[str, Member]]:
    """The members, to be changed by the caller; written back unless it raises."""
    # A link stays a link: the file behind it is the one to replace.
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AllowListWriteError(f"{path}: {error.strerror}", path=path) from None
    with os.fdopen(lock, "w"):
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            members = read_members(path)
        except config.ConfigMissingError:
            members = {}
        yield members
        try:
            _replace(path, _text(members))
        except OSError as error:
            raise AllowListWriteError(f"{path}: {error.strerror}", path=path) from None


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)  # left by a power cut; the lock is ours
    write_new(fresh, text, mode=stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644)
    fresh.replace(path)
    sync_directory(path.parent)


def _text(members: Mapping[str, Member]) -> str:
    # Neither names nor Z85 hold a character that TOML would want escaped.
    tables = (
        f'\n[members."{member.name}"]\npublic = "{member.public}"\n'
        f'role = "{member.role}"\nadded = "{member.added}"\n'
        for member in members.values()
    )
    return _HEADER + "schema = 1\n" + "".join(tables)


_Stamp = tuple[int, int, int, int]


class AllowList:
    """The list at `path` as it is now, for a server. Safe to call from any thread.

    A file that is missing, broken or open to all keeps the last good list in force: it is
    reported once, and `problem` says what is wrong until it is right again.
    """

    def __init__(self, path: Path) -> None:
        """Raises what `read_members` raises."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._current_stamp()
        self._members = _by_key(read_members(path))
        self._gone: dict[str, str] = {}
        self._problem: str | None = None

    def __repr__(self) -> str:
        return f"AllowList({self._path}, members={len(self._members)}, problem={self._problem!r})"

    @property
    def problem(self) -> str | None:
        """Why the file, as it is now, is not in force; None when it is."""
        return self._problem

    def lookup(self, public: str) -> Member | None:
        """Who a key (Z85) stands for, None when nobody; always by the file as it is now."""
        with self._lock:
            self._follow()
            return self._members.get(public)

    def members(self) -> tuple[Member, ...]:
        """Everybody on the list."""
        with self._lock:
            self._follow()
            return tuple(self._members.values())

    def refresh(self) -> dict[str, str]:
        """Keys (Z85) whose entry is gone or has changed since the last call, with the name they
        had: whatever sessions they have must end. Who still is a member comes back as what it is
        now."""
        with self._lock:
            self._follow()
            gone, self._gone = self._gone, {}
            return gone

    def _follow(self) -> None:
        stamp = self._current_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            members = _by_key(read_members(self._path))
        except ConfigError as error:
            self._problem = error.message
            log.error("allow-list not taken over", extra=fields(reason=self._problem))
            return
        self._problem = None
        self._gone |= {
            public: member.name
            for public, member in self._members.items()
            if members.get(public) != member
        }
        self._members = members
        log.info("allow-list taken over", extra=fields(members=len(members)))

    def _current_stamp(self) -> _Stamp | None:
        """What changes whenever the file does; None when there is none."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def _by_key(members: Mapping[str, Member]) -> dict[str, Member]:
    return {member.public: member for member in members.values()}
