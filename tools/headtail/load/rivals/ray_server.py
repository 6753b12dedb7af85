"""Ray Serve: batches by its decorator, one replica a worker."""

import signal

import numpy as np
from ray import serve
from starlette.requests import Request

from headtail.load.rivals.tail import Tail, TailOptions, best_class, tail_options


def main() -> None:
    options = tail_options()
    serve.start(http_options={"host": "127.0.0.1", "port": options.port})
    serve.run(_application(options), route_prefix="/")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()


def _application(options: TailOptions) -> serve.Application:
    class TailDeployment:
        def __init__(self) -> None:
            self._tail = Tail(options.bundle, options.cut)

        @serve.batch(max_batch_size=options.max_batch, batch_wait_timeout_s=options.batch_wait_s)
        async def predict(self, payloads: list[bytes]) -> list[dict[str, float]]:
            tensors = np.concatenate([self._tail.decode(payload) for payload in payloads])
            return [best_class(scores) for scores in self._tail.infer(tensors)]

        async def __call__(self, request: Request) -> dict[str, float]:
            if request.method == "GET":
                return {}
            answer: dict[str, float] = await self.predict(await request.body())
            return answer

    deployment = serve.deployment(num_replicas=options.workers, max_ongoing_requests=64)
    return deployment(TailDeployment).bind()


if __name__ == "__main__":
    main()
