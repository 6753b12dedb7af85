"""One model as a function: an Open Inference Protocol body in, one out."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, cast

from headtail_cloud.core.task import TailItem, TailOutput, TaskFailed
from headtail_cloud.engines.catalogue import Catalogue
from headtail_cloud.engines.loading import load_tails
from headtail_cloud.engines.served_tail import ServedTail, TailInputError
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.open_inference.message import (
    BadRequestError,
    InferRequest,
    encode_answer,
    parse_request,
)
from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError
from headtail_fabric.wire import Buffer

MODEL: Final = "HEADTAIL_MODEL"
TRUSTED: Final = "HEADTAIL_TRUSTED"
CACHE: Final = "HEADTAIL_CACHE"
THREADS: Final = "HEADTAIL_THREADS"


class FunctionSettingsError(ConfigError):
    """The function's environment is not right. HEADTAIL_MODEL names a bundle, or one of its cuts
    as `bundle:cut`; HEADTAIL_TRUSTED a public key's file, HEADTAIL_CACHE a folder that may be
    written to, HEADTAIL_THREADS a number, where they are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """`json_bytes`: how much of `body` is JSON; None when all is."""

    body: bytes
    json_bytes: int | None


class TailFunction:
    """Safe to call from several threads: calls wait for each other."""

    def __init__(self, tail: ServedTail) -> None:
        self.tail = tail
        self._engine = TailEngine([tail], max_batch=1)
        self._one_at_a_time = threading.Lock()

    def __repr__(self) -> str:
        return f"<TailFunction {self.tail!r}>"

    @classmethod
    def load(
        cls,
        reference: str,
        *,
        trusted: tuple[Path, ...] = (),
        cache_dir: Path | None = None,
        threads: int = 1,
    ) -> Self:
        """`reference`: `bundle:cut`, or a bundle for its whole network. Raises what `load_tails`
        does."""
        tails = load_tails([reference], trusted=trusted, cache_dir=cache_dir, threads=threads)
        return cls(Catalogue(tails).tails[0])

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """As the environment says. Raises FunctionSettingsError, and what `load` does."""
        reference, threads = environment.get(MODEL), environment.get(THREADS, "1")
        if not reference:
            raise FunctionSettingsError(f"{MODEL} is not set")
        if not (threads.isdecimal() and 1 <= int(threads) <= 256):
            raise FunctionSettingsError(f"{THREADS} is {threads[:20]!r}")
        key, cache = environment.get(TRUSTED), environment.get(CACHE)
        return cls.load(
            reference,
            trusted=(Path(key),) if key else (),
            cache_dir=Path(cache) if cache else None,
            threads=int(threads),
        )

    def invoke(self, body: Buffer, header_length: str | None = None) -> Answered:
        """Raises BadRequestError, TailInputError, StageError."""
        request = parse_request(body, header_length)
        outputs = self._run(request)
        answer, json_bytes = encode_answer(
            request, outputs, model=self.tail.name, version=self.tail.version
        )
        return Answered(body=answer, json_bytes=json_bytes)

    def _run(self, request: InferRequest) -> Mapping[str, Array]:
        item = TailItem(request_id="1", segment=self.tail.segment, input=self.tail.accept(request))
        with self._one_at_a_time:
            (result,) = self._engine.step([item])
        if isinstance(result, TaskFailed):
            raise TailInputError(result.message)
        assert isinstance(result, TailOutput)
        return cast("Mapping[str, Array]", result.output)


CALLER_ERRORS: Final = (BadRequestError, TailInputError)
"""What `invoke` raises when the caller is at fault."""
