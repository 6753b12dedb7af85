"""From an address on the command line to what its metrics port says."""

import http.client
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from headtail.top.samples import Samples
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError

_TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 4 * 1024 * 1024
_WORKERS: Final = 8


class BadTargetError(ConfigError):
    """That is no metrics port. Name one as PORT, HOST:PORT or http://HOST:PORT; a daemon has one
    when `metrics_port` is set (`--metrics-port`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a metrics port is."""

    host: str
    port: int
    path: str = "/metrics"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """One look at one target: samples, or why there are none."""

    address: Address
    at: float
    samples: Samples | None
    problem: str = ""


def parse_address(text: str) -> Address:
    """Raises BadTargetError."""
    if re.fullmatch(r"\d{1,5}", text):
        text = f"127.0.0.1:{text}"
    if "://" not in text:
        text = f"http://{text}"
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise BadTargetError(f"{text[:80]!r}: {error}") from None
    if url.scheme != "http" or not host or not port:
        raise BadTargetError(f"{text[:80]!r} is no http://HOST:PORT")
    return Address(host=host, port=port, path=url.path if url.path not in ("", "/") else "/metrics")


class Scraper:
    """Looks at all targets at once; a slow one costs the others nothing."""

    def __init__(self, addresses: tuple[Address, ...], *, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock
        self._pool = ThreadPoolExecutor(min(_WORKERS, len(addresses)), "scrape")

    def look(self) -> list[Scrape]:
        """One scrape for each address, in their order."""
        return list(self._pool.map(self._one, self._addresses))

    def close(self) -> None:
        """Waits for no answer that is still to come."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, address: Address) -> Scrape:
        now = self._clock.now()
        try:
            return Scrape(address=address, at=now, samples=Samples.parse(_get(address)))
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return Scrape(address=address, at=now, samples=None, problem=problem)


def _get(address: Address) -> str:
    """Raises OSError, HTTPException, ValueError."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", address.path, headers={"Accept": "text/plain"})
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise ValueError(f"HTTP status {response.status}")
        body = response.read(_MOST_BYTES + 1)
    finally:
        connection.close()
    if len(body) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    return body.decode("utf-8", "replace")
