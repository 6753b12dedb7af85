"""What a daemon measures of itself, on an optional port for Prometheus, with checks beside it.

Daemons program against `Metrics`. Names get the prefix `headtail_`; a label's values must come
from a small closed set (an enrolled name, a cut, an outcome), never from whatever a peer sends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from headtail_fabric.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from prometheus_client import Counter as PrometheusCounter
    from prometheus_client import Gauge as PrometheusGauge
    from prometheus_client import Histogram as PrometheusHistogram

LATENCY_BUCKETS_S: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0
)  # fmt: skip

_NAMESPACE: Final = "headtail"

Check = Callable[[], str | None]
"""Asked from another thread: None when all is well, else in a few words what is not."""


class MetricsMissingError(ConfigError):
    """Metrics need the package prometheus-client. Install it with `pip install
    'headtail[metrics]'`, or leave the metrics port out of the configuration."""


class MetricsPortError(ResourceError):
    """Metrics can't be served there: another program has the port, or the address is not this
    machine's. Choose another port, or stop the other program."""


class Counter(Protocol):
    def add(self, amount: float = 1, **labels: str) -> None:
        """Count `amount` more."""
        ...


class Gauge(Protocol):
    def set(self, value: float, **labels: str) -> None:
        """What it is now."""
        ...


class Histogram(Protocol):
    def observe(self, value: float, **labels: str) -> None:
        """One more measurement."""
        ...


class Metrics(Protocol):
    """Makes instruments; each name once. Safe to call from any thread, as the instruments are."""

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> Counter:
        """A number that only grows; its name gets `_total` behind it."""
        ...

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> Gauge:
        """A number that comes and goes."""
        ...

    def histogram(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = LATENCY_BUCKETS_S,
    ) -> Histogram:
        """A distribution; `buckets` are upper bounds in the unit of what is observed."""
        ...

    def close(self) -> None:
        """Stop serving and free the port."""
        ...


def serve(
    *, port: int | None, host: str = "127.0.0.1", checks: Mapping[str, Check] | None = None
) -> Metrics:
    """Metrics at `http://host:port/metrics`, port 0 taking a free one; with port None, none.

    `checks` by path, as `/healthz`: answered with 200, or with 503 and what is wrong. Raises
    MetricsMissingError, MetricsPortError.
    """
    if port is None:
        return NullMetrics()
    metrics = PrometheusMetrics()
    metrics.listen(host, port, checks or {})
    return metrics


class _NullInstrument:
    def add(self, amount: float = 1, **labels: str) -> None:
        pass

    def set(self, value: float, **labels: str) -> None:
        pass

    def observe(self, value: float, **labels: str) -> None:
        pass


class NullMetrics:
    """Measures nothing, at no cost."""

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> Counter:
        return _NullInstrument()

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> Gauge:
        return _NullInstrument()

    def histogram(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = LATENCY_BUCKETS_S,
    ) -> Histogram:
        return _NullInstrument()

    def close(self) -> None:
        pass


class _Counter:
    def __init__(self, inner: "PrometheusCounter") -> None:
        self._inner = inner

    def add(self, amount: float = 1, **labels: str) -> None:
        (self._inner.labels(**labels) if labels else self._inner).inc(amount)


class _Gauge:
    def __init__(self, inner: "PrometheusGauge") -> None:
        self._inner = inner

    def set(self, value: float, **labels: str) -> None:
        (self._inner.labels(**labels) if labels else self._inner).set(value)


class _Histogram:
    def __init__(self, inner: "PrometheusHistogram") -> None:
        self._inner = inner

    def observe(self, value: float, **labels: str) -> None:
        (self._inner.labels(**labels) if labels else self._inner).observe(value)


class _HttpServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: object) -> None:
        """A scrape every few seconds is no news."""


class PrometheusMetrics:
    """A registry of its own, so that two daemons in one process don't meet in a global one.

    Raises MetricsMissingError where prometheus-client is not installed.
    """

    def __init__(self) -> None:
        try:
            import prometheus_client
        except ImportError:
            raise MetricsMissingError("the package prometheus-client is not installed") from None
        self._client = prometheus_client
        self._registry = prometheus_client.CollectorRegistry()
        self._server: tuple[_HttpServer, Thread] | None = None

    @property
    def port(self) -> int | None:
        """The port that was really taken; None while nothing is served."""
        return None if self._server is None else self._server[0].server_port

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> Counter:
        return _Counter(
            self._client.Counter(
                name, description, labels, namespace=_NAMESPACE, registry=self._registry
            )
        )

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> Gauge:
        return _Gauge(
            self._client.Gauge(
                name, description, labels, namespace=_NAMESPACE, registry=self._registry
            )
        )

    def histogram(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = LATENCY_BUCKETS_S,
    ) -> Histogram:
        return _Histogram(
            self._client.Histogram(
                name,
                description,
                labels,
                namespace=_NAMESPACE,
                registry=self._registry,
                buckets=buckets,
            )
        )

    def text(self) -> str:
        """All measurements in Prometheus's text format, as the port serves it."""
        return self._client.generate_latest(self._registry).decode()

    def listen(self, host: str, port: int, checks: Mapping[str, Check]) -> None:
        """Serve `text` and the checks over HTTP from threads. Raises MetricsPortError."""
        measured = self._client.make_wsgi_app(self._registry)

        def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
            check = checks.get(environ["PATH_INFO"])
            if check is None:
                text: Iterable[bytes] = measured(environ, start)
                return text
            wrong = check()
            status = "200 OK" if wrong is None else "503 Service Unavailable"
            start(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{wrong or 'ok'}\n".encode()]

        try:
            server = make_server(host, port, answer, _HttpServer, _Silent)
            thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
            thread.start()
            self._server = server, thread
        except (OSError, OverflowError) as error:
            raise MetricsPortError(
                f"metrics can't be served at {host}:{port}: {error}", host=host, port=port
            ) from None

    def close(self) -> None:
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()
            self._server = None
