"""ONNX Runtime alone: what a server could reach if serving cost nothing."""

import threading
import time
from dataclasses import dataclass

import numpy as np

from headtail.load.payload import Payload
from headtail_models.bundle import Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """`rate` is requests a second, `cpu_ms` the processor time of each."""

    rate: float
    cpu_ms: float


def bare_loop(
    bundle: Bundle, payload: Payload, *, batch: int, workers: int, seconds: float
) -> Bare:
    """`workers` threads with a session each: no socket, no decoding."""
    cut = bundle.cut(payload.cut)
    stages = [bundle.open_stage(cut.tail, threads=1) for _ in range(workers)]
    tensor = np.repeat(payload.tensor(bundle), batch, axis=0)
    done = [0] * workers
    for stage in stages:
        stage.run({cut.tensor.name: tensor})
    began_at, began_s = time.monotonic(), time.process_time()
    until = began_at + seconds

    def work(number: int) -> None:
        stage = stages[number]
        while time.monotonic() < until:
            stage.run({cut.tensor.name: tensor})
            done[number] += batch

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s, cpu_s = time.monotonic() - began_at, time.process_time() - began_s
    return Bare(rate=sum(done) / took_s, cpu_ms=1000 * cpu_s / sum(done))
