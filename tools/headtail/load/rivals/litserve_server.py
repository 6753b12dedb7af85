"""LitServe: batches, a worker process each; a tensor goes as base64 in JSON, as its examples do."""

import base64
from collections.abc import Sequence
from typing import Any

import litserve
import numpy as np
from numpy.typing import NDArray

from headtail.load.rivals.tail import Tail, TailOptions, best_class, tail_options


class TailApi(litserve.LitAPI):
    def __init__(self, options: TailOptions) -> None:
        super().__init__(max_batch_size=options.max_batch, batch_timeout=options.batch_wait_s)
        self._options = options

    def setup(self, device: str) -> None:
        self._tail = Tail(self._options.bundle, self._options.cut)

    def decode_request(self, request: dict[str, str]) -> NDArray[np.float32]:
        return self._tail.decode(base64.b64decode(request["tensor"]))

    def batch(self, inputs: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.concatenate(inputs)

    def predict(self, batch: NDArray[np.float32]) -> NDArray[Any]:
        return self._tail.infer(batch)

    def unbatch(self, output: NDArray[Any]) -> list[NDArray[Any]]:
        return list(output)

    def encode_response(self, output: NDArray[Any]) -> dict[str, float]:
        return best_class(output)


def main() -> None:
    options = tail_options()
    server = litserve.LitServer(
        TailApi(options), accelerator="cpu", workers_per_device=options.workers
    )
    server.run(host="127.0.0.1", port=options.port, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
