"""What each way costs on this very device, measured once a bundle and machine."""

from collections.abc import Sequence
from statistics import fmean, median, pstdev
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from headtail_device.head import Encoded
from headtail_device.placement import LOCAL, Remote, way_name
from headtail_fabric.clock import Clock
from headtail_models.task import Answer, Frame

NonNegative = Annotated[float, Meta(ge=0)]


class WayCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds and bytes of one frame: preparation, network (gates and head, or the whole model)
    and encoding; mean and standard deviation of the payload's size."""

    prepare_s: NonNegative = 0.0
    compute_s: NonNegative
    encode_s: NonNegative = 0.0
    payload_bytes: NonNegative = 0.0
    payload_deviation_bytes: NonNegative = 0.0


class StageCosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By the ways' names (`way_name`). A value that can be kept in a file."""

    ways: dict[str, WayCost]

    @property
    def local_s(self) -> float:
        """Of the whole model."""
        return self.ways[LOCAL].compute_s

    def slowed(self, factor: float) -> "StageCosts":
        """Of a device that takes `factor` times as long."""
        return StageCosts(
            ways={
                name: msgspec.structs.replace(
                    cost,
                    prepare_s=cost.prepare_s * factor,
                    compute_s=cost.compute_s * factor,
                    encode_s=cost.encode_s * factor,
                )
                for name, cost in self.ways.items()
            }
        )


class Measurable(Protocol):
    """What of a head is measured: the gates' verdicts are not heeded. `HeadRunner` is one."""

    def encode(self, data: Frame, way: Remote) -> Encoded: ...

    def whole(self, data: Frame) -> Answer: ...


def measure(
    head: Measurable, remotes: Sequence[Remote], frames: Sequence[Frame], clock: Clock
) -> StageCosts:
    """Run every way on every frame: medians of the times, mean of the sizes.

    Each way runs once before it counts. `head` must read the same `clock`; one of processor time
    leaves out what the machine's other work takes. Raises ValueError without a frame, and what
    `head` raises.
    """
    if not frames:
        raise ValueError("nothing to measure on")
    ways = {LOCAL: measure_whole(head, frames, clock)}
    ways |= {way_name(remote): measure_remote(head, remote, frames) for remote in remotes}
    return StageCosts(ways=ways)


def measure_whole(head: Measurable, frames: Sequence[Frame], clock: Clock) -> WayCost:
    """Of the whole model on this device; see `measure`."""
    head.whole(frames[0])
    times = []
    for frame in frames:
        began_at = clock.now()
        head.whole(frame)
        times.append(clock.now() - began_at)
    return WayCost(compute_s=median(times))


def measure_remote(head: Measurable, remote: Remote, frames: Sequence[Frame]) -> WayCost:
    """Of one way to the edge; see `measure`."""
    head.encode(frames[0], remote)
    encoded = [head.encode(frame, remote) for frame in frames]
    sizes = [one.payload_bytes for one in encoded]
    return WayCost(
        prepare_s=median(one.prepare_s for one in encoded),
        compute_s=median(one.compute_s for one in encoded),
        encode_s=median(one.encode_s for one in encoded),
        payload_bytes=fmean(sizes),
        payload_deviation_bytes=pstdev(sizes),
    )
