"""What a gateway writes down: one line of JSON for each record that was settled."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from headtail_edge.gateway.messages import Telemetry
from headtail_fabric.errors import ResourceError


class RecordsFileError(ResourceError):
    """The file of records can't be written, so nothing is acknowledged any more and the gateway
    stops: nodes keep what they have. Make room on the disk, or correct the path and its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A settled record. `time_s` is seconds since 1970: the node's if it knew, else its arrival.

    A line is written before its record is acknowledged; after a gateway was killed the same (node,
    log, sequence) may be there twice.
    """

    node: str
    log: int
    sequence: int
    time_s: float
    kind: str
    values: Mapping[str, object]

    def to_json(self) -> str:
        """Without a line break."""
        start = {"node": self.node, "kind": self.kind, "time": round(self.time_s, 3)}
        return json.dumps({**start, "log": self.log, "sequence": self.sequence, **self.values})


def telemetry_values(telemetry: Telemetry) -> Mapping[str, object]:
    """As they stand in a line."""
    return {
        "uptime_s": telemetry.uptime_s,
        "heap_free": telemetry.heap_free,
        "heap_least": telemetry.heap_least,
        "battery_mv": telemetry.battery_mv,
        "rssi_dbm": telemetry.rssi_dbm,
        "wake": telemetry.wake.name.lower().replace("_", "-"),
        "lost": telemetry.lost,
        "inference_us": telemetry.inference_us,
        "crashes": telemetry.crashes,
        "failures": telemetry.failures,
        "release": telemetry.release,
    }


class RecordFile:
    """Appends lines; `flush` before anything is acknowledged."""

    def __init__(self, path: Path | None) -> None:
        """Standard output where there is no path. Raises RecordsFileError."""
        self._path = path
        try:
            self._file: IO[str] = (
                sys.stdout if path is None else path.open("a", encoding="utf-8", newline="\n")
            )
        except OSError as error:
            raise RecordsFileError(f"{path}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._file.close()

    def write(self, line: Line) -> None:
        """Raises RecordsFileError."""
        try:
            self._file.write(line.to_json() + "\n")
        except OSError as error:
            raise RecordsFileError(f"{self._path or 'output'}: {error.strerror}") from None

    def flush(self) -> None:
        """Raises RecordsFileError."""
        try:
            self._file.flush()
        except OSError as error:
            raise RecordsFileError(f"{self._path or 'output'}: {error.strerror}") from None
