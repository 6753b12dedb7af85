"""Clients of an HTTP server, each a kept connection with a thread, one request at a time."""

import http.client
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from headtail.load.served import Served, served


class HttpClients:
    """`count` clients that post `body` to one path of a server on this machine."""

    def __init__(
        self, port: int, count: int, *, path: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        self._port = port
        self._count = count
        self._path = path
        self._body = body
        self._headers = dict(headers)

    def run(self, seconds: float) -> Served:
        """Ask for `seconds`, then wait for what is still out. Raises RuntimeError for an answer
        that is not 200."""
        began_at = time.monotonic()
        with ThreadPoolExecutor(self._count) as pool:
            clients = [pool.submit(self._ask, began_at + seconds) for _ in range(self._count)]
            latencies_s = [latency for client in clients for latency in client.result()]
        return served(latencies_s, seconds=time.monotonic() - began_at)

    def _ask(self, until: float) -> list[float]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        latencies_s: list[float] = []
        try:
            while (asked_at := time.monotonic()) < until:
                connection.request("POST", self._path, self._body, self._headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"the server answered {answer.status}: {said[:200]!r}")
                latencies_s.append(time.monotonic() - asked_at)
        finally:
            connection.close()
        return latencies_s
