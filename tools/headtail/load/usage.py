"""What a server and all its children cost this machine, as the kernel counts it."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """`cpu_s` since the processes began; `memory_mb` is proportional set size, so that pages which
    workers share count once."""

    cpu_s: float
    memory_mb: float
    processes: int


def usage(pid: int) -> Usage:
    """Of process `pid` and everything below it that lives now (Linux)."""
    cpu_s, memory_kb, count = 0.0, 0, 0
    for one in _tree(pid):
        # A child may end in between.
        with contextlib.suppress(OSError):
            cpu_s += _cpu_s(one)
            memory_kb += _pss_kb(one)
            count += 1
    return Usage(cpu_s=cpu_s, memory_mb=memory_kb / 1024, processes=count)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                yield from _tree(int(child))


def _cpu_s(pid: int) -> float:
    # The command may hold spaces and parentheses: fields are counted behind the last of them.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _pss_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0
