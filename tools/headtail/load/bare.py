"""ONNX Runtime alone: what a server could reach if serving cost nothing."""

import threading
import time

import numpy as np

from headtail.load.payload import Payload
from headtail_models.bundle import Bundle


def bare_rate(
    bundle: Bundle, payload: Payload, *, batch: int, workers: int, seconds: float
) -> float:
    """Requests a second of `workers` threads with a session each: no socket, no decoding."""
    cut = bundle.cut(payload.cut)
    stages = [bundle.open_stage(cut.tail, threads=1) for _ in range(workers)]
    tensor = np.repeat(payload.tensor(bundle), batch, axis=0)
    done = [0] * workers
    for stage in stages:
        stage.run({cut.tensor.name: tensor})
    began_at = time.monotonic()
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
    return sum(done) / (time.monotonic() - began_at)
