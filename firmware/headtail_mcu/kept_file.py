"""A small file that is whole whatever happens: written aside, synced, then renamed over."""

import os

_MAX_BYTES = 4096


class KeptFile:
    """Bytes under a path. Reads b"" where there are none."""

    def __init__(self, path):
        self._path = path

    def read(self):
        """At most 4 KiB."""
        try:
            # No more than there is: reading sets aside what it is asked for, in one piece.
            size = min(os.stat(self._path)[6], _MAX_BYTES)
            with open(self._path, "rb") as file:
                return file.read(size)
        except OSError:
            return b""

    def write(self, data):
        """The old bytes or the new ones are there after a power cut, never a part."""
        if len(data) > _MAX_BYTES:
            raise ValueError(f"{len(data)} bytes, {_MAX_BYTES} can be kept")
        aside = self._path + ".new"
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()  # onto the medium: MicroPython's flush is a sync
        os.rename(aside, self._path)


def next_boot(kept):
    """A number for this run, written to `kept` before it is used."""
    before = kept.read()
    boot = int.from_bytes(before[:4], "big") + 1 if len(before) >= 4 else 1
    kept.write(boot.to_bytes(4, "big"))
    return boot
