"""A Cortex-M3 with MicroPython in QEMU, worked through its serial port.

`build.sh` makes the firmware. The emulator counts instructions (`-icount shift=0`: one is a
nanosecond of its clock), so what a script reads off the board's SysTick is exact and the same on
every machine; cycles of a real core it does not know.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headtail_fabric.config import cache_home

_BOOT_S: Final = 20.0
_PIECE: Final = 4096
_RAW, _RUN, _END = b"\x01", b"\x04", b"\x04"
_PROMPT: Final = b"raw REPL; CTRL-B to exit\r\n>"
_FILES: Final = """
import gc, io, sys
try:
    import vfs
except ImportError:
    import os as vfs
class Files:
    def __init__(self): self.held = {}
    def mount(self, *_): pass
    def umount(self): pass
    def chdir(self, _): pass
    def make(self, name, size):
        self.held.pop(name, None)
        gc.collect()
        self.held[name] = bytearray(size)
    def fill(self, name, at, piece):
        memoryview(self.held[name])[at:at + len(piece)] = piece
    def stat(self, path):
        path = path.strip("/")
        if path in self.held: return (0x8000,0,0,0,0,0,len(self.held[path]),0,0,0)
        if any(name.startswith(path + "/") for name in self.held): return (0x4000,)+(0,)*9
        raise OSError(2)
    def open(self, path, mode):
        path = path.strip("/")
        if path not in self.held: raise OSError(2)
        data = self.held[path]
        return io.BytesIO(data) if "b" in mode else io.StringIO(bytes(data).decode())
files = Files()
vfs.mount(files, "/host")
sys.path.append("/host")
"""


class BoardError(Exception):
    """The emulated board did something else than it was told."""


def find_firmware(folder: Path | None = None) -> Path | None:
    """What `build.sh` made, where QEMU is there to run it; else None."""
    firmware = (folder or cache_home() / "firmware-emulated") / "firmware.elf"
    return firmware if firmware.exists() and shutil.which("qemu-system-arm") else None


class EmulatedBoard:
    """Boots at once; a context manager. Raises BoardError when it does not boot."""

    def __init__(self, firmware: Path) -> None:
        command = ["qemu-system-arm", "-machine", "mps2-an385", "-display", "none"]
        command += ["-monitor", "none", "-semihosting", "-serial", "stdio", "-icount", "shift=0"]
        self._process = subprocess.Popen(  # noqa: S603 - from the path, as any tool
            [*command, "-kernel", str(firmware)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None, "opened as a pipe"
        os.set_blocking(self._process.stdout.fileno(), False)
        try:
            self._send(_RAW)
            self._until(_PROMPT, _BOOT_S)
            self.run(_FILES, timeout_s=_BOOT_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()

    def put(self, files: Mapping[str, bytes]) -> None:
        """Files that scripts find under /host, where modules are looked for, too."""
        for name, data in files.items():
            # Room for all of it at once: a file that grows leaves a heap full of holes.
            self.run(f"files.make({name!r}, {len(data)})", timeout_s=_BOOT_S)
            for at in range(0, len(data), _PIECE):
                piece = data[at : at + _PIECE]
                self.run(f"files.fill({name!r}, {at}, {piece!r})", timeout_s=_BOOT_S)

    def run(self, script: str, *, timeout_s: float) -> str:
        """What it printed. Raises BoardError with the traceback of a script that failed."""
        self._send(script.encode() + _RUN)
        self._until(b"OK", timeout_s)
        printed = self._until(_END, timeout_s)
        failed = self._until(_END, timeout_s)
        self._until(b">", timeout_s)
        if failed:
            raise BoardError(f"{printed.decode()}{failed.decode()}")
        return printed.decode().replace("\r\n", "\n")

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _until(self, mark: bytes, timeout_s: float) -> bytes:
        """What comes before `mark`, which is taken, too; nothing beyond it is."""
        assert self._process.stdout is not None, "opened as a pipe"
        until, came = time.monotonic() + timeout_s, bytearray()
        while not came.endswith(mark):
            byte = self._process.stdout.read(1)
            if byte:
                came += byte
            elif self._process.poll() is not None or time.monotonic() > until:
                raise BoardError(f"the board is silent; before that: {bytes(came[-200:])!r}")
            else:
                time.sleep(0.002)
        return bytes(came[: -len(mark)])
