"""Sealed packets of all nodes, and that none of them is taken twice.

What came is written down before a packet is used, in one small file a node, so that a gateway that
was killed and started again refuses what it had taken. The file is not forced onto the disk at each
packet: a power cut of the gateway's machine may lose the last moments.
"""

import hashlib
import os
import struct
import zlib
from pathlib import Path
from typing import Final

from headtail_edge.gateway.envelope import EnvelopeError, Opener, Sealer, Window
from headtail_edge.gateway.node_book import Roster
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.keys import sync_directory, write_new

_STORED: Final = struct.Struct("<32sqQ")
_CRC_BYTES: Final = 4
_BOOT: Final = "boot"


class StateFileError(ResourceError):
    """The gateway's state can't be read or written. Check the folder's owner, its permissions and
    the space on the disk."""


class StateDamagedError(ConfigError):
    """A file of the gateway's state is damaged, so nobody knows any more which packets came
    already. Give the node that it names a new pre-shared key, then remove the file."""


class Vault:
    """Openers and sealers by node, with their state in `folder`."""

    def __init__(self, folder: Path) -> None:
        """Raises StateFileError, StateDamagedError."""
        self._folder = folder
        self._boot = _next_boot(folder)
        self._openers: dict[tuple[str, bytes], Opener] = {}
        self._sealers: dict[tuple[str, bytes], Sealer] = {}

    def open(self, packet: bytes, roster: Roster) -> tuple[str, bytes]:
        """(node, message). Raises EnvelopeError, StateFileError, StateDamagedError."""
        known = roster.by_psk_id(packet[1]) if len(packet) > 1 else None
        if known is None:
            raise EnvelopeError("a packet for a key that no node has")
        opener = self._opener(*known)
        message = opener.open(packet)
        self._keep(*known, opener.window)
        return known[0], message

    def seal(self, node: str, message: bytes, roster: Roster) -> bytes | None:
        """None for a node that has no pre-shared key any more. Raises CounterUsedUpError."""
        entry = roster.entries.get(node)
        if entry is None or entry.psk is None or entry.psk_id is None:
            return None
        key = (node, bytes.fromhex(entry.psk))
        if key not in self._sealers:
            self._sealers[key] = Sealer(key[1], key_id=entry.psk_id, boot=self._boot)
        return self._sealers[key].seal(message)

    def _opener(self, node: str, psk: bytes) -> Opener:
        key = (node, psk)
        if key not in self._openers:
            self._openers[key] = Opener(psk, window=self._kept(node, psk))
        return self._openers[key]

    def _kept(self, node: str, psk: bytes) -> Window:
        path = self._path(node)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Window()
        except OSError as error:
            raise StateFileError(f"{path}: {error.strerror}", path=path) from None
        body, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
        if len(body) != _STORED.size or zlib.crc32(body).to_bytes(_CRC_BYTES, "little") != crc:
            raise StateDamagedError(f"{path} is damaged", path=path)
        mark, newest, seen = _STORED.unpack(body)
        # Of another key nothing came yet.
        return Window(newest=newest, seen=seen) if mark == _mark(psk) else Window()

    def _keep(self, node: str, psk: bytes, window: Window) -> None:
        body = _STORED.pack(_mark(psk), window.newest, window.seen)
        data = body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")
        path = self._path(node)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, data, 0)
            finally:
                os.close(file)
        except OSError as error:
            raise StateFileError(f"{path}: {error.strerror}", path=path) from None

    def _path(self, node: str) -> Path:
        return self._folder / f"{node}.window"


def _mark(psk: bytes) -> bytes:
    """Tells keys apart without telling them."""
    return hashlib.sha256(b"headtail vault" + psk).digest()


def _next_boot(folder: Path) -> int:
    """A number that no earlier run had, on the disk before it is used."""
    path, fresh = folder / _BOOT, folder / f".{_BOOT}.new"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = int(path.read_text()) if path.exists() else 0
        fresh.unlink(missing_ok=True)
        write_new(fresh, f"{before + 1}\n", mode=0o600)
        fresh.replace(path)
        sync_directory(folder)
    except OSError as error:
        raise StateFileError(f"{path}: {error.strerror}", path=path) from None
    except ValueError:
        raise StateDamagedError(f"{path} holds no number", path=path) from None
    return before + 1
