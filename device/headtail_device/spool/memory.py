"""A disk in memory that can be full, and whose process can be killed in the middle of a write."""


class Killed(BaseException):
    """The process was killed; not an error that anyone may handle."""


class MemoryDisk:
    """A `Disk` for tests: it outlives the objects that use it, as a disk does.

    `room_bytes`: what still fits, or None for any amount. `kill_in`: after that many more writes
    the process is killed, with a part of the last one done.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.room_bytes: int | None = None
        self.kill_in: int | None = None
        self.synced = 0

    def __repr__(self) -> str:
        return f"<MemoryDisk { ({name: len(data) for name, data in self.files.items()}) }>"

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str, at: int = 0, size: int | None = None) -> bytes:
        data = self.files[name]
        return bytes(data[at:] if size is None else data[at : at + size])

    def append(self, name: str, data: bytes) -> None:
        file = self.files.setdefault(name, bytearray())
        if self._dies():
            file += data[: len(data) // 2]
            raise Killed
        if self.room_bytes is not None:
            if self.room_bytes < len(data):
                file += data[: self.room_bytes]
                self.room_bytes = 0
                raise OSError(28, "No space left on device")
            self.room_bytes -= len(data)
        file += data

    def put(self, name: str, at: int, value: int) -> None:
        if self._dies():
            raise Killed
        self.files[name][at] = value

    def cut(self, name: str, size: int) -> None:
        if self.room_bytes is not None:
            self.room_bytes += len(self.files[name]) - size
        del self.files[name][size:]

    def sync(self, name: str) -> None:
        self.synced += 1

    def remove(self, name: str) -> None:
        if self._dies():
            raise Killed
        gone = self.files.pop(name, bytearray())
        if self.room_bytes is not None:
            self.room_bytes += len(gone)

    def close(self) -> None:
        """Nothing to close."""

    def _dies(self) -> bool:
        if self.kill_in is None:
            return False
        self.kill_in -= 1
        return self.kill_in < 0
