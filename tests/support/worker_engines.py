"""Engines for worker processes under test. Their requests' names say what befalls them:

...kills...     the process is killed, as by the kernel, whenever it is run
...once...      the same, but only the first time: a file in `folder` remembers
...hangs...     it never comes back
...raises...    the whole step fails
"""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import TailItem, TailOutput, Task, TaskResult
from headtail_cloud.engines.modelled import ModelledEngine, Prices
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.runtime.engine_spec import EngineSpec, LoadedEngine

SEGMENT = Segment("yolo@1.0", "tail")
QUICK = Prices(step_s=1e-4, prefill_s=1e-5, decode_s=1e-5, run_s=1e-4, item_s=1e-5)


@dataclass(slots=True, kw_only=True)
class FragileEngine(ModelledEngine):
    folder: Path
    pace_s: float = 0.0

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        time.sleep(self.pace_s)
        for task in tasks:
            self._suffer(task.request_id)
        return [_echoed(task) or self._do(task) for task in tasks]

    def _suffer(self, name: str) -> None:
        if "raises" in name:
            raise RuntimeError("as it was told")
        if "hangs" in name:
            threading.Event().wait()
        if "kills" in name or ("once" in name and not (self.folder / name).exists()):
            (self.folder / name).touch()
            os.kill(os.getpid(), signal.SIGKILL)


def _echoed(task: Task) -> TailOutput | None:
    """A tail with a payload gets it back, as an array, and the process that did it."""
    if not (isinstance(task, TailItem) and isinstance(task.input, TailInput)):
        return None
    echoed = np.frombuffer(task.input.payload, np.float32).reshape(task.input.shape)
    return TailOutput(
        request_id=task.request_id, output={"echo": echoed, "pid": np.array(os.getpid())}
    )


def fragile(*, folder: str, blocks: int = 64, pace_s: float = 0.0) -> LoadedEngine:
    """The factory."""
    limits = Capacity(max_batch=4, blocks=blocks, block_tokens=4)
    engine = FragileEngine(limits=limits, prices=QUICK, folder=Path(folder), pace_s=pace_s)
    return LoadedEngine(engine=engine, segments=(SEGMENT,))


def threaded() -> LoadedEngine:
    """An engine that starts a thread when it is loaded."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    return LoadedEngine(engine=ModelledEngine(limits=Capacity(max_batch=1)))


def broken() -> LoadedEngine:
    """An engine that can't be loaded."""
    raise MemoryError("too large")


def spec(folder: Path, **options: float) -> EngineSpec:
    """A fragile engine's."""
    return EngineSpec(factory="worker_engines:fragile", options={"folder": str(folder), **options})
