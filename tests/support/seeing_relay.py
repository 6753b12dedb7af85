"""A relay that ends every connection: it holds keys of its own, and sees all that it passes on."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import zmq

from headtail_fabric.allowlist import AllowList
from headtail_fabric.keys import KeyPair
from headtail_fabric.zap import Authenticator, client_curve, server_curve

Change = Callable[[list[bytes]], list[bytes]]


class SeeingRelay:
    """CURVE towards devices and towards the edge, one connection there for each device.

    `seen` are the messages that went up, `change` may change them on their way.
    """

    def __init__(self, edge: str, *, keys: KeyPair, edge_key: str, allow_list: AllowList) -> None:
        self.seen: list[list[bytes]] = []
        self.change: Change = lambda frames: frames
        self._edge = edge
        self._keys = keys
        self._edge_key = edge_key
        self._context = zmq.Context()
        self._authenticator = Authenticator(self._context, allow_list)
        self._authenticator.start()
        self._front = self._context.socket(zmq.ROUTER)
        server_curve(self._front, keys)
        self._front.bind("tcp://127.0.0.1:0")
        endpoint = self._front.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(endpoint, bytes)
        self.endpoint = endpoint.rstrip(b"\0").decode()
        self._backs: dict[bytes, zmq.Socket[bytes]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._authenticator.stop()
        for socket in (self._front, *self._backs.values()):
            socket.close(0)
        self._context.term()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        while not self._stop.is_set():
            ready = dict(poller.poll(50))
            if self._front in ready:
                route, *frames = self._front.recv_multipart()
                self.seen.append(frames)
                if route not in self._backs:
                    self._backs[route] = self._connect()
                    poller.register(self._backs[route], zmq.POLLIN)
                self._backs[route].send_multipart(self.change(frames))
            for route, back in self._backs.items():
                if back in ready:
                    self._front.send_multipart([route, *back.recv_multipart()])

    def _connect(self) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.DEALER)
        client_curve(socket, self._keys, self._edge_key)
        socket.connect(self._edge)
        return socket
