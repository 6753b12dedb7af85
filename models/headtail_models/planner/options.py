"""From what was measured to the options that a device and a server have together."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headtail_models.planner.costs import CutCost, ModelCosts, PayloadCost
from headtail_models.planner.option import Option

LOCAL = "local"
OFFLOAD = "offload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """How fast the device is: as `profile` says, else as the machine that measured; `slowdown`
    times as slow."""

    slowdown: float = 1.0
    profile: ModelCosts | None = None


def options_of(
    costs: ModelCosts, device: Device, *, codecs: Collection[str] | None = None
) -> tuple[Option, ...]:
    """Local, every cut with every codec, and full offload.

    `codecs`: base ids (`raw`, `q8`, `q4`) that may be used at a cut; None for all. A cut that the
    device's profile lacks, or has only by interpolation, counts as estimated.
    """
    there = device.profile or costs
    found = [
        Option(
            kind="local",
            name=LOCAL,
            device_s=there.full_s * device.slowdown,
            device_macs=costs.full_macs,
        )
    ]
    for cut in costs.cuts:
        found.extend(_of_cut(cut, costs, device, codecs))
    found.extend(
        Option(
            kind="offload",
            name=OFFLOAD,
            codec=payload.codec,
            device_s=payload.encode_s * device.slowdown,
            payload_bytes=payload.mean_bytes,
            server_s=payload.decode_s + costs.full_s,
        )
        for payload in costs.offload
    )
    return tuple(found)


def _of_cut(
    cut: CutCost, costs: ModelCosts, device: Device, codecs: Collection[str] | None
) -> Iterator[Option]:
    theirs = device.profile.cut(cut.name) if device.profile is not None else cut
    # What a profile lacks runs as much slower as the whole model does.
    scale = device.profile.full_s / costs.full_s if device.profile and costs.full_s else 1.0
    head_s = theirs.head_s if theirs is not None else cut.head_s * scale
    for payload in cut.payloads:
        if codecs is not None and payload.codec.partition("+")[0] not in codecs:
            continue
        yield Option(
            kind="split",
            name=cut.name,
            codec=payload.codec,
            device_s=(head_s + _encode_s(payload, theirs, scale)) * device.slowdown,
            payload_bytes=payload.mean_bytes,
            server_s=payload.decode_s + cut.tail_s,
            device_macs=cut.head_macs,
            estimated=not cut.measured or theirs is None or not theirs.measured,
        )


def _encode_s(payload: PayloadCost, theirs: CutCost | None, scale: float) -> float:
    """As the device's profile has it for that codec."""
    if theirs is not None:
        for other in theirs.payloads:
            if other.codec == payload.codec:
                return other.encode_s
    return payload.encode_s * scale
