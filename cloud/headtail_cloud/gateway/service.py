"""The models that are served, and the runtime that runs them."""

import itertools
from collections.abc import Iterable
from typing import cast

from headtail_cloud.core.actions import Finish, Reject
from headtail_cloud.core.request import TailRequest
from headtail_cloud.engines.catalogue import Catalogue
from headtail_cloud.engines.served_tail import TailInput, TailInputError, TailModel
from headtail_cloud.gateway import failure
from headtail_cloud.gateway.failure import FailureError
from headtail_cloud.open_inference.message import NAMES, InferRequest, encode_answer
from headtail_cloud.runtime.exchange import RuntimeBrokenError
from headtail_cloud.runtime.serving import Runtime
from headtail_cloud.tenants import Caller
from headtail_fabric.codec.base import Array
from headtail_models.tensor import TensorSpec


class TailService:
    """Answers requests of the Open Inference Protocol."""

    def __init__(
        self,
        tails: Iterable[TailModel],
        runtime: Runtime,
        *,
        deadline_s: float,
        longest_deadline_s: float,
    ) -> None:
        """`deadline_s`: of a request that names none; no request gets more than the longest."""
        self._catalogue = Catalogue(tails)
        self._runtime = runtime
        self._deadline_s = deadline_s
        self._longest_deadline_s = longest_deadline_s
        self._numbers = itertools.count()

    @property
    def alive(self) -> bool:
        return self._runtime.alive

    def model(self, name: str, version: str | None) -> TailModel:
        """Raises FailureError."""
        tail = self._catalogue.find(name, version)
        if tail is None:
            raise FailureError(failure.no_such_model(name, version))
        return tail

    def models(self) -> tuple[TailModel, ...]:
        """All that are served."""
        return self._catalogue.tails

    def announce(self, tail: TailModel) -> None:
        """A request for it is due: an instance is started, if there is none."""
        self._runtime.announce(tail.segment, 0.0)

    def metadata(self, tail: TailModel) -> dict[str, object]:
        """What the protocol tells of a model."""
        return {
            "name": tail.name,
            "versions": self._catalogue.versions(tail.name),
            "platform": "headtail_onnx",
            "inputs": [_described(tail.input, [1, *tail.input.shape])],
            "outputs": [
                _described(spec, tail.shape_of(spec)) for spec in (tail.answer, *tail.raw_outputs)
            ],
            "parameters": {"digest": tail.digest.hex(), "codecs": list(tail.codec_ids)},
        }

    async def infer(
        self, tail: TailModel, request: InferRequest, caller: Caller
    ) -> tuple[bytes, int | None]:
        """The answer's body and how much of it is JSON. Raises FailureError. When it is cancelled,
        so is the request."""
        work = self._checked(tail, request)
        deadline_s = min(request.timeout_s or self._deadline_s, self._longest_deadline_s)
        exchange = self._runtime.submit(
            TailRequest(
                id=str(next(self._numbers)),
                tenant=caller.tenant,
                chain=(tail.segment,),
                deadline_s=deadline_s,
                input=work,
                priority=caller.priority,
            )
        )
        try:
            end = await exchange.end()
        except RuntimeBrokenError as error:
            raise FailureError(failure.of_the_engine(error)) from None
        return self._answer(tail, request, end)

    def _checked(self, tail: TailModel, request: InferRequest) -> TailInput:
        try:
            return tail.accept(request)
        except TailInputError as error:
            raise FailureError(failure.bad_request(error)) from None

    def _answer(
        self, tail: TailModel, request: InferRequest, end: Finish | Reject
    ) -> tuple[bytes, int | None]:
        failed = failure.of_rejection(end) if isinstance(end, Reject) else failure.of_end(end)
        if failed is not None:
            raise FailureError(failed)
        assert isinstance(end, Finish)
        tensors = cast("dict[str, Array]", end.output)
        return encode_answer(request, tensors, model=tail.name, version=tail.version)


def _described(spec: TensorSpec, shape: list[int]) -> dict[str, object]:
    return {"name": spec.name, "datatype": NAMES[spec.dtype], "shape": shape}
