"""What a device measured of itself, kept for its next start."""

import hashlib
import logging
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

import msgspec

from headtail_device.controller import StageCosts
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_PROCESSORS = Path("/proc/cpuinfo")
_NAMES = ("model name", "Hardware", "Model", "CPU part")


class CostStore:
    """One small file a bundle and machine, `<digest>-<machine>.json`. That a file is missing,
    damaged or can't be written costs only the time to measure again."""

    def __init__(self, folder: Path, *, digest: bytes, machine: str) -> None:
        self._path = folder / f"{digest.hex()}-{machine}.json"

    @property
    def path(self) -> Path:
        return self._path

    def load(self) -> StageCosts | None:
        """What was kept; None when there is nothing that can be used."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=StageCosts)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._tell("what was measured can't be read, measuring again", error)
            return None

    def save(self, costs: StageCosts) -> None:
        """Keep it, whole or not at all."""
        content = msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(content)
            Path(file.name).replace(self._path)
        except OSError as error:
            self._tell("what was measured can't be kept", error)

    def _tell(self, message: str, error: Exception) -> None:
        log.warning(message, extra=fields(path=str(self._path), error=str(error)))


def machine_id(*, threads: int) -> str:
    """Twelve hexadecimal digits: the kind of processor, how many of them, how many threads compute,
    and what computes. Machines of one kind share theirs."""
    facts = [
        platform.machine(),
        _processor(),
        str(os.cpu_count()),
        str(threads),
        version("onnxruntime"),
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _processor() -> str:
    try:
        lines = _PROCESSORS.read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    pairs = [line.partition(":") for line in lines]
    return "\n".join(sorted({value.strip() for name, _, value in pairs if name.strip() in _NAMES}))
