"""The routes, as an ASGI application.

GET  /healthz, /v2/health/live          the process runs
GET  /readyz, /v2/health/ready          models are loaded
GET  /metrics                           for Prometheus
GET  /v2                                who this is
GET  /v2/models                         what is served
GET  /v2/models/NAME[/versions/V]       its tensors
GET  /v2/models/NAME[/versions/V]/ready
POST /v2/models/NAME[/versions/V]/infer
POST /v2/repository/models/NAME/load    a request for it is due
     /v1/...                            texts (`open_ai.routes`)
"""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from headtail_cloud.gateway.deployment import Deployment
from headtail_cloud.gateway.failure import Failure
from headtail_cloud.gateway.guard import Guard, Handler
from headtail_cloud.gateway.limits import Limits, while_connected
from headtail_cloud.metrics import CloudMetrics
from headtail_cloud.open_ai.routes import OpenAiRoutes
from headtail_cloud.open_inference.message import HEADER_LENGTH, parse_request
from headtail_cloud.tenants import Tenants


class Gateway:
    """The application's state; `text` gives the measurements in Prometheus's format."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        version: str,
        tenants: Tenants,
        limits: Limits,
        metrics: CloudMetrics,
        text: Callable[[], str],
    ) -> None:
        self._deployment = deployment
        self._version = version
        self._guard = Guard(tenants, limits, metrics)
        self._text = text

    def app(self) -> Starlette:
        """To be run by an ASGI server."""
        model = "/v2/models/{name}"
        one = "/v2/models/{name}/versions/{version}"
        return Starlette(
            # They are tried in this order: the one that is asked for most stands first.
            routes=[
                *(
                    Route(f"{path}/infer", self._guarded(self._infer), methods=["POST"])
                    for path in (model, one)
                ),
                Route("/healthz", self._live),
                Route("/v2/health/live", self._live),
                Route("/readyz", self._ready),
                Route("/v2/health/ready", self._ready),
                Route("/metrics", self._measurements),
                Route("/v2", self._server),
                Route("/v2/", self._server),
                Route("/v2/models", self._guarded(self._models)),
                *(Route(path, self._guarded(self._model)) for path in (model, one)),
                *(Route(f"{path}/ready", self._guarded(self._model)) for path in (model, one)),
                Route(
                    "/v2/repository/models/{name:path}/load",
                    self._guarded(self._announced),
                    methods=["POST"],
                ),
                *OpenAiRoutes(self._deployment, self._guard).routes(),
            ],
            exception_handlers={HTTPException: self._http_error},
        )

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, request: Request) -> Response:
        failed = self._deployment.not_ready()
        return self._failed(failed) if failed else JSONResponse({"ready": True})

    async def _measurements(self, request: Request) -> Response:
        return PlainTextResponse(self._text(), media_type="text/plain; version=0.0.4")

    async def _server(self, request: Request) -> Response:
        return JSONResponse(
            {"name": "headtail", "version": self._version, "extensions": ["binary_tensor_data"]}
        )

    async def _models(self, request: Request) -> Response:
        self._guard.caller(request)
        service = self._deployment.tails()
        return JSONResponse({"models": [service.metadata(tail) for tail in service.models()]})

    async def _model(self, request: Request) -> Response:
        self._guard.caller(request)
        service = self._deployment.tails()
        name, version = request.path_params["name"], request.path_params.get("version")
        return JSONResponse(service.metadata(service.model(name, version)))

    async def _announced(self, request: Request) -> Response:
        """The model repository extension's word for it: who will ask may say so before."""
        self._guard.caller(request)
        service = self._deployment.tails()
        service.announce(service.model(request.path_params["name"], None))
        return JSONResponse({})

    async def _infer(self, request: Request) -> Response:
        with self._guard.enter(request) as caller:
            service = self._deployment.tails()
            name, version = request.path_params["name"], request.path_params.get("version")
            tail = service.model(name, version)
            body = await self._guard.body(request)
            parsed = parse_request(body, request.headers.get(HEADER_LENGTH))
            answer, json_bytes = await while_connected(
                request, lambda: service.infer(tail, parsed, caller)
            )
        if json_bytes is None:
            return Response(answer, media_type="application/json")
        headers = {HEADER_LENGTH: str(json_bytes)}
        return Response(answer, media_type="application/octet-stream", headers=headers)

    def _guarded(self, route: Handler) -> Handler:
        return self._guard.route(route, _shaped)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = "not-found" if error.status_code == 404 else "bad-request"
        return self._failed(
            Failure(status=error.status_code, code=code, message=error.detail),
            dict(error.headers or {}),
        )

    def _failed(self, failed: Failure, headers: dict[str, str] | None = None) -> Response:
        return self._guard.failed(failed, _shaped, headers)


def _shaped(failed: Failure, headers: dict[str, str]) -> Response:
    content = {"error": failed.message, "code": failed.code}
    return JSONResponse(content, status_code=failed.status, headers=headers)
