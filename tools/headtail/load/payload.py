"""What every client of a benchmark sends: the head's output for one real picture."""

from dataclasses import dataclass
from pathlib import Path

import cv2

from headtail.provision import ensure_clip
from headtail_device.head import HeadRunner
from headtail_device.placement import remote_for
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer, TensorInfo
from headtail_models.bundle import Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """One request for the tail behind `cut`."""

    digest: bytes
    cut: str
    tensors: tuple[TensorInfo, ...]
    buffers: tuple[Buffer, ...]

    @property
    def size_bytes(self) -> int:
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)

    def tensor(self, bundle: Bundle) -> Array:
        """What an edge decodes from it."""
        info = self.tensors[0]
        return bundle.codecs(self.cut).new(info.codec).decode(self.buffers[0], info.shape)


def real_payload(bundle: Bundle, cut: str, codec: str) -> Payload:
    """The head of `bundle` on a frame of the sample clip; empty words are the bundle's defaults."""
    way = remote_for(bundle.manifest, cut=cut, codec=codec, quality=75)
    head = HeadRunner(bundle, threads=1, clock=MonotonicClock())
    encoded = head.encode(_middle_frame(ensure_clip()), way)
    return Payload(
        digest=bundle.digest, cut=way.cut, tensors=encoded.tensors, buffers=encoded.payloads
    )


def _middle_frame(clip: Path) -> Array:
    capture = cv2.VideoCapture(str(clip))
    try:
        capture.set(cv2.CAP_PROP_POS_FRAMES, capture.get(cv2.CAP_PROP_FRAME_COUNT) // 2)
        done, frame = capture.read()
    finally:
        capture.release()
    if not done:
        raise RuntimeError(f"the sample clip {clip} can't be read")
    return frame
