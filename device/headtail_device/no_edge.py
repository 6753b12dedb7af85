"""The port of a device that has no edge."""

from collections.abc import Sequence

from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import ClientEvent
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.wire import Buffer, Frames, TensorInfo


class NoEdge:
    """A `ClientPort` that never connects."""

    def submit(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        deadline_s: float,
        trace: str = "",
    ) -> int:
        raise WindowFullError("there is no edge")

    def cancel(self, request_id: int) -> None:
        pass

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        pass

    def free_window(self) -> int:
        return 0

    def poll(self, timeout_s: float) -> ClientEvent | None:
        return None

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        pass

    def estimate(self) -> LinkEstimate:
        return LinkEstimate()

    def traffic(self) -> TrafficCount:
        return TrafficCount()

    def close(self, timeout_s: float = 1.0) -> None:
        pass
