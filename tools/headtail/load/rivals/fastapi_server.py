"""FastAPI and ONNX Runtime: what most people write first. No batches; a thread a request."""

import uvicorn
from anyio import to_thread
from fastapi import FastAPI, Request

from headtail.load.rivals.tail import Tail, best_class, tail_options


def main() -> None:
    options = tail_options()
    tail = Tail(options.bundle, options.cut)
    app = FastAPI()

    def answer(payload: bytes) -> dict[str, float]:
        return best_class(tail.infer(tail.decode(payload))[0])

    @app.post("/predict")
    async def predict(request: Request) -> dict[str, float]:
        return await to_thread.run_sync(answer, await request.body())

    @app.get("/health")
    def health() -> str:
        return "ok"

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
