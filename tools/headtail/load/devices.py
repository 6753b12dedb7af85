"""Devices of an edge, each a connection with a thread; they only wait, so they cost little."""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self

from headtail.load.payload import Payload
from headtail.load.served import Served, served
from headtail_fabric.peer.events import Answered, Connected
from headtail_fabric.peer.zmq_client import ZmqClient


class Devices:
    """`count` clients of one edge with `in_flight` requests each; a context manager."""

    def __init__(self, endpoint: str, count: int, payload: Payload, *, in_flight: int) -> None:
        self._payload = payload
        self._in_flight = in_flight
        self._opened = ExitStack()
        self._ports = [
            self._opened.enter_context(ZmqClient(endpoint, name=f"bench-{number}"))
            for number in range(count)
        ]

    def __enter__(self) -> Self:
        for port in self._ports:
            event = port.poll(10)
            if not isinstance(event, Connected):
                raise RuntimeError(f"no connection to the benchmark's own edge: {event}")
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def run(self, seconds: float) -> Served:
        """Ask for `seconds`, then wait for what is still out."""
        began_at = time.monotonic()
        askers = [
            _Asker(port, self._payload, until=began_at + seconds, in_flight=self._in_flight)
            for port in self._ports
        ]
        with ThreadPoolExecutor(len(askers)) as pool:
            # A client that is done goes on polling until all are: it still owes heartbeats.
            running = [pool.submit(asker.run, askers) for asker in askers]
            for one in running:
                one.result()
        took_s = time.monotonic() - began_at
        answers = [answer for asker in askers for answer in asker.answers]
        return served(
            [latency_s for latency_s, _ in answers],
            seconds=took_s,
            batch=statistics.mean(batch for _, batch in answers),
        )


class _Asker:
    """One client's requests until a point in time; `answers` are latencies (s) and batch sizes."""

    def __init__(self, port: ZmqClient, payload: Payload, *, until: float, in_flight: int) -> None:
        self._port = port
        self._payload = payload
        self._until = until
        self._in_flight = in_flight
        self._submitted: dict[int, float] = {}
        self.answers: list[tuple[float, int]] = []
        self.done = False

    def run(self, all_of_them: Sequence["_Asker"]) -> None:
        try:
            while not all(asker.done for asker in all_of_them):
                self._turn()
        finally:
            self.done = True

    def _turn(self) -> None:
        while len(self._submitted) < self._in_flight and time.monotonic() < self._until:
            request_id = self._port.submit(
                bundle=self._payload.digest,
                cut=self._payload.cut,
                tensors=self._payload.tensors,
                payloads=self._payload.buffers,
                deadline_s=60.0,
            )
            self._submitted[request_id] = time.monotonic()
        event = self._port.poll(0.1)
        if isinstance(event, Answered):
            latency_s = time.monotonic() - self._submitted.pop(event.id)
            self.answers.append((latency_s, event.hints.batch))
        elif event is not None:
            raise RuntimeError(f"an answer was expected, came: {event}")
        self.done = not self._submitted and time.monotonic() >= self._until
