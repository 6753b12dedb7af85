"""A client that is polled by a thread of its own.

So answers are stamped when they come, heartbeats go out and deadlines expire while the program
computes. Only events cross to the program's thread.
"""

import queue
import threading
from collections.abc import Sequence
from typing import Final

from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.events import ClientEvent
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.wire import Buffer, Frames, TensorInfo

_TURN_S: Final = 1.0


class ThreadedClient:
    """A `ClientPort` around a `ZmqClient`, which it owns from now on."""

    def __init__(self, client: ZmqClient) -> None:
        self._client = client
        self._events: queue.SimpleQueue[ClientEvent] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headtail link", daemon=True)
        self._thread.start()

    def __enter__(self) -> "ThreadedClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ThreadedClient({self._client!r})"

    def submit(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        deadline_s: float,
    ) -> int:
        return self._client.submit(
            bundle=bundle, cut=cut, tensors=tensors, payloads=payloads, deadline_s=deadline_s
        )

    def cancel(self, request_id: int) -> None:
        self._client.cancel(request_id)

    def free_window(self) -> int:
        return self._client.free_window()

    def poll(self, timeout_s: float) -> ClientEvent | None:
        try:
            return self._events.get(timeout_s > 0, timeout_s)
        except queue.Empty:
            return None

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        self._client.push_bundle(digest, packed)

    def estimate(self) -> LinkEstimate:
        return self._client.estimate()

    def traffic(self) -> TrafficCount:
        return self._client.traffic()

    def close(self, timeout_s: float = 1.0) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._client.interrupt()
            self._thread.join()
            self._client.close(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            event = self._client.poll(_TURN_S)
            if event is not None:
                self._events.put(event)
