"""What the rivals serve: the tail behind one cut, for payloads in 8 bits under zstd."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import zstandard
from numpy.typing import NDArray

from headtail_models.bundle import open_bundle

CODEC: Final = "q8+zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """What the command line of every rival says."""

    bundle: Path
    cut: str
    port: int
    workers: int
    max_batch: int
    batch_wait_s: float


def tail_options() -> TailOptions:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--cut", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--max-batch", type=int, default=4)
    parser.add_argument("--batch-wait-s", type=float, default=0.001)
    return TailOptions(**vars(parser.parse_args()))


class Tail:
    """Dequantises with numpy, computes with ONNX Runtime on one thread, picks the best class."""

    def __init__(self, bundle: Path, cut: str) -> None:
        opened = open_bundle(bundle)
        self._cut = opened.cut(cut)
        self._stage = opened.open_stage(self._cut.tail, threads=1)
        self._quantiser = opened.quantiser(cut, CODEC.partition("+")[0])

    def decode(self, payload: bytes) -> NDArray[np.float32]:
        """One request's tensor, 1 x C x H x W."""
        plain = zstandard.ZstdDecompressor().decompress(payload)
        levels = np.frombuffer(plain, dtype=np.uint8).reshape(1, *self._cut.tensor.shape)
        return self._quantiser.values(levels, bits=8)

    def infer(self, tensors: NDArray[np.float32]) -> NDArray[Any]:
        """Scores of N tensors, N x classes."""
        outputs = self._stage.run({self._cut.tensor.name: tensors})
        scores: NDArray[Any] = next(iter(outputs.values()))
        return scores


def best_class(scores: NDArray[Any]) -> dict[str, float]:
    """What is answered: class and score."""
    best = int(scores.argmax())
    return {"class": best, "score": float(scores[best])}
