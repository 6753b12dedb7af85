"""One way to work, and what it costs over a link. Plain values and pure functions, which a
controller can ask again whenever the link changes.

    latency = device + 8 payload / rate + rtt + server      (local: the device alone)
    energy  = J/MAC x MACs + J/byte x payload + idle power x the time the device waits

(The latency is that of Kang et al., "Neurosurgeon", ASPLOS 2017, section 4, plus the round trip.)
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

NonNegative = Annotated[float, Meta(ge=0)]


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Link(_Value, frozen=True, kw_only=True):
    """`rate_bps`: bits a second from the device to the server, for payload."""

    rate_bps: Annotated[float, Meta(gt=0)]
    rtt_s: NonNegative


class EnergyModel(_Value, frozen=True, kw_only=True):
    """What the device spends. A model with stated numbers, not a measurement.

    The defaults are of the order of a small single-board computer: 2 W at 4 G multiply-adds a
    second; a Wi-Fi radio at 0.8 W and 6.4 Mbit/s; half a watt while it waits. Put in your own.
    """

    joules_per_mac: NonNegative = 0.5e-9
    joules_per_byte: NonNegative = 1e-6
    idle_w: NonNegative = 0.5


class Option(_Value, frozen=True, kw_only=True):
    """A way to work. `device_s` has the encoding in it, `server_s` the decoding.

    `name` is the cut's, `local` or `offload`; `codec` is empty when nothing is sent. `estimated`:
    the times were interpolated between those of neighbours.
    """

    kind: Literal["local", "split", "offload"]
    name: str
    codec: str = ""
    device_s: NonNegative
    payload_bytes: NonNegative = 0.0
    server_s: NonNegative = 0.0
    device_macs: Annotated[int, Meta(ge=0)] = 0
    estimated: bool = False


def latency_s(option: Option, link: Link) -> float:
    """From the prepared input to the answer, nothing else on the link, no queue at the server."""
    if option.kind == "local":
        return option.device_s
    sending = 8 * option.payload_bytes / link.rate_bps
    return option.device_s + sending + link.rtt_s + option.server_s


def energy_j(option: Option, link: Link, model: EnergyModel) -> float:
    """What one frame costs the device."""
    waiting = latency_s(option, link) - option.device_s
    return (
        model.joules_per_mac * option.device_macs
        + model.joules_per_byte * option.payload_bytes
        + model.idle_w * waiting
    )
