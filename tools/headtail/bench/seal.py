"""What sealing costs: key agreement, one payload, and a request with its answer through both ends.

One core, no network. The exchange is all that sealing adds to a request: seal, open, seal the
answer, open it. Each figure is the median of `--rounds`.
"""

import argparse
import secrets
import statistics
import time
from collections.abc import Callable
from typing import Final

from headtail.bench.report import Report
from headtail_fabric.seal import Opener, Sealer
from headtail_fabric.seal.cipher import PycryptodomeCipher, SealCipher, best_cipher
from headtail_fabric.wire import DType, Request, TensorInfo

_DIGEST: Final = bytes(32)
_SESSION: Final = bytes(16)
_ANSWER: Final = bytes(600)  # some detections
_SIZES: Final = {"1k": 1_000, "30k": 30_000, "100k": 100_000, "500k": 500_000}
_INFO: Final = TensorInfo(name="t", dtype=DType.UINT8, shape=(1,), codec="q8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=100, help="of each figure (default 100)")


def run(options: argparse.Namespace) -> Report:
    ciphers: dict[str, SealCipher] = {"pycryptodome": PycryptodomeCipher()}
    best = best_cipher()
    if not isinstance(best, PycryptodomeCipher):
        ciphers["cryptography"] = best
    report = Report("seal", {"rounds": options.rounds, "libraries": ", ".join(ciphers)})
    rows: list[list[str | float]] = []
    for name, cipher in ciphers.items():
        secret = secrets.token_bytes(32)
        public = cipher.public(secret)
        agree_us = _median_us(lambda: cipher.agree(secret, public), options.rounds)  # noqa: B023
        report.figure(f"agree_us_{name}", agree_us)
        rows.append([f"{name}: key agreement", agree_us, "", ""])
        for label, size in _SIZES.items():
            seal_us, open_us = _primitives_us(cipher, size, options.rounds)
            exchange_us = _exchange_us(cipher, size, options.rounds)
            report.figure(f"seal_us_{label}_{name}", seal_us)
            report.figure(f"open_us_{label}_{name}", open_us)
            report.figure(f"exchange_us_{label}_{name}", exchange_us)
            rows.append([f"{name}: {label}", seal_us, open_us, exchange_us])
    report.table("Microseconds", ["what", "seal", "open", "request and answer"], rows)
    return report


def _primitives_us(cipher: SealCipher, size: int, rounds: int) -> tuple[float, float]:
    key, nonce, text = bytes(32), bytes(12), secrets.token_bytes(size)
    sealed = cipher.seal(key, nonce, text, b"")
    return (
        _median_us(lambda: cipher.seal(key, nonce, text, b""), rounds),
        _median_us(lambda: cipher.open(key, nonce, sealed, b""), rounds),
    )


def _exchange_us(cipher: SealCipher, size: int, rounds: int) -> float:
    """All four steps of one request within a session that stands."""
    secret, payload = secrets.token_bytes(32), secrets.token_bytes(size)
    device = Sealer(cipher.public(secret), pad_bytes=0, random=secrets.token_bytes, cipher=cipher)
    device.begin(session=_SESSION, boot=_SESSION)
    edge = Opener(secret, required=True, pad_bytes=0, random=secrets.token_bytes, cipher=cipher)

    def exchange() -> None:
        tensor, envelope = device.seal([_INFO], [payload], id=1, bundle=_DIGEST, cut="L7")
        request = Request(
            id=1, bundle=_DIGEST, cut="L7", remaining_ms=1, attempt=1, tensors=(tensor,)
        )
        answers = edge.open(request, [envelope], session=_SESSION, boot=_SESSION)[2]
        assert answers is not None, "it was sealed"
        told, answer = answers.seal([_INFO], [_ANSWER])
        device.open((told,), [answer], id=1)

    return _median_us(exchange, rounds)


def _median_us(act: Callable[[], object], rounds: int) -> float:
    act()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6
