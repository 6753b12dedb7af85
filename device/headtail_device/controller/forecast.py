"""What an option would cost now.

    latency = gates + (1 - coverage) (head + backlog + payload / rate + round trip + queue + edge)
    queue   = what the edge tells of, or what it still has of this device when the request arrives
    energy  = J/MAC x multiply-adds + J/byte x payload + idle power x the time the device waits

(Kang et al., "Neurosurgeon", ASPLOS 2017, section 4, with queues, exits and a round trip.) Each
term is what was measured, times its drift; what they together leave unexplained is learnt as a bias
of the option, and how much they scatter as the spread.
"""

from typing import Final

from headtail_device.controller.conditions import ASSUMED_RATE_BYTES_S, Conditions
from headtail_device.controller.drift import Drift
from headtail_device.controller.option import Option
from headtail_device.decision import Experience, Forecast
from headtail_models.planner.option import EnergyModel

_SPREADS: Final = 2.0
"""How many mean deviations above the mean a forecast's upper end lies: 95 % of a normal one's."""
_FIRST_SPREAD: Final = 0.15
_SPREAD_GAIN: Final = 1 / 8
_BIAS_GAIN: Final = 0.1
_BIAS_HALF_LIFE_S: Final = 60.0
_BIAS_LIMIT: Final = 0.25
_COVERAGE_GAIN: Final = 0.02
_LINK_FADES_S: Final = 4.0
_TRUST_HALF_LIFE_S: Final = 15.0
_EDGE_HOPE: Final = 0.5
_UNKNOWN_LINK: Final = 4.0
"""How many times as slow as assumed an unknown link may be, for the upper end."""


class Forecaster:
    """Corrects what was measured by what happens."""

    def __init__(self, energy: EnergyModel) -> None:
        self._energy = energy
        self._device = Drift(half_life_s=600.0, least_gain=0.05, prior=2)
        self._edge = Drift(half_life_s=600.0, least_gain=0.05)
        # An edge that serves several at once, or in batches, is free sooner than one after another.
        self._queue = Drift(half_life_s=600.0, least_gain=0.05, prior=5)
        # Frames differ in size by nature: what one took says little of the next.
        self._payload = Drift(half_life_s=600.0, least_gain=0.03, most_gain=0.1, prior=20)
        self._wire = Drift(half_life_s=8.0, least_gain=0.05, prior=5)
        self._rate_bytes_s: float | None = None
        self._coverage: dict[str, float] = {}
        self._bias: dict[str, tuple[float, float]] = {}
        self._spread: dict[bool, float] = {}

    def __repr__(self) -> str:
        return f"<Forecaster device={self._device} edge={self._edge} wire={self._wire}>"

    def link_told(self, given: Conditions) -> None:
        """Before the forecasts for a frame. A stall that has made the link's estimate worse must
        not count once more as the drift that was learnt from it under the old one."""
        if self._rate_bytes_s is not None:
            self._wire.absorbed(self._rate_bytes_s / given.rate_bytes_s)
        self._rate_bytes_s = given.rate_bytes_s if given.rate_known else None

    def forecast(self, option: Option, given: Conditions, now: float) -> Forecast:
        """For the next frame."""
        name, way = option.name, option.way
        device = self._device.factor(way, now)
        gates_s, device_s = option.gates_s * device, option.device_s * device
        share = 1 - self._coverage.get(name, option.coverage)
        server_s = transfer_s = rtt_s = backlog_s = queue_s = payload_bytes = 0.0
        if option.needs_edge:
            payload_bytes = self._payload_bytes(option, given, now)
            server_s = option.server_s * self._edge.factor(way, now)
            transfer_s = payload_bytes / given.rate_bytes_s * self._wire.factor(way, now)
            rtt_s, backlog_s = given.rtt_s, given.backlog_s
            arrives_s = gates_s + device_s + backlog_s + transfer_s + rtt_s / 2
            busy_s = max(given.edge_busy_s - arrives_s, 0.0) * self._queue.factor(way, now)
            queue_s = max(given.queue_s, busy_s)
        beyond_s = backlog_s + transfer_s + rtt_s + queue_s + server_s
        bias_s = self._bias_s(name, now)
        latency_s = max(gates_s + share * (device_s + beyond_s) + bias_s, 0.0)
        # A share of the frames goes all the way, and a deadline is each frame's own; of a link that
        # nothing is known of the worse is to be reckoned with.
        unsure_s = 0.0 if given.rate_known else (_UNKNOWN_LINK - 1) * transfer_s
        longest_s = max(gates_s + device_s + beyond_s + bias_s, latency_s) + unsure_s
        trust = 2 ** (-given.heard_s / _TRUST_HALF_LIFE_S)
        spread = 1 + _SPREADS * self._spread_of(option, trust, transfer_s, longest_s)
        fresh = 2 ** (-given.heard_s / _LINK_FADES_S) if given.rate_known else 0.0
        # The slots' rate is fixed, however long ago they were used.
        least_s = transfer_s * (fresh if given.slots is None else 1.0)
        hoped_s = gates_s + share * (device_s + least_s + rtt_s + server_s * max(fresh, _EDGE_HOPE))
        sent_bytes = share * payload_bytes if given.slots is None else given.slots.payload_bytes
        hoped_s = min(hoped_s, latency_s)
        energy_j = self._joules(option, share, sent_bytes, share * beyond_s)
        return Forecast(
            gates_s=gates_s,
            device_s=device_s,
            transfer_s=transfer_s,
            rtt_s=rtt_s,
            queue_s=queue_s,
            server_s=server_s,
            payload_bytes=payload_bytes,
            latency_s=latency_s,
            upper_s=longest_s * spread,
            hoped_s=hoped_s,
            feared_s=(longest_s - transfer_s + _faded_s(transfer_s, given, trust)) * spread,
            sent_bytes=sent_bytes,
            energy_j=energy_j,
            hoped_j=energy_j - self._energy.idle_w * (latency_s - hoped_s),
            drop=option.drop,
        )

    def learn(self, option: Option, expected: Forecast, was: Experience, now: float) -> None:
        """`expected` is the forecast under which the option was chosen."""
        name, way = option.name, option.way
        if option.coverage > 0 and was.answered:
            share = self._coverage.get(name, option.coverage)
            self._coverage[name] = share + _COVERAGE_GAIN * (was.exited - share)
        alone_s = expected.gates_s if was.exited else expected.gates_s + expected.device_s
        if was.device_s > 0 and alone_s > 0:
            self._device.observe(way, was.device_s / alone_s, now)
        if was.exited:
            return
        if was.payload_bytes is not None and expected.payload_bytes > 0:
            self._payload.observe(way, was.payload_bytes / expected.payload_bytes, now)
        if was.server_s is not None and expected.server_s > 0:
            self._edge.observe(way, was.server_s / expected.server_s, now)
        if was.queue_s is not None and expected.queue_s > 0:
            self._queue.observe(way, was.queue_s / expected.queue_s, now)
        if was.wire_s is not None:
            self._learn_wire(way, expected, was, now)
        if not was.answered:
            if was.total_s <= expected.latency_s or was.fault or expected.latency_s <= 0:
                return  # that it was given up so soon tells nothing of how long it would have taken
            if option.needs_edge:
                self._wire.observe(way, was.total_s / expected.latency_s, now)
        self._learn_rest(option, expected, was, now)

    def _learn_wire(self, way: str, expected: Forecast, was: Experience, now: float) -> None:
        assert was.wire_s is not None
        # For its own size: that frames differ is no news of the link.
        size = (was.payload_bytes or 0) / expected.payload_bytes if expected.payload_bytes else 0.0
        transfer_s = expected.transfer_s * size
        whole_s = transfer_s + expected.rtt_s
        if whole_s > 0:
            error = (was.wire_s - whole_s) / max(transfer_s, whole_s / 4)
            self._wire.observe(way, 1 + error, now)

    def _learn_rest(self, option: Option, expected: Forecast, was: Experience, now: float) -> None:
        if expected.latency_s <= 0:
            return
        missed_s = was.total_s - expected.latency_s
        if option.coverage == 0:
            limit_s = _BIAS_LIMIT * expected.latency_s
            bias_s = self._bias_s(option.name, now)
            step_s = _BIAS_GAIN * (min(max(missed_s, -limit_s), limit_s))
            self._bias[option.name] = (bias_s + step_s, now)
        spread = self._spread.get(option.needs_edge, _FIRST_SPREAD)
        size = min(abs(missed_s) / expected.latency_s, 2.0)
        self._spread[option.needs_edge] = spread + _SPREAD_GAIN * (size - spread)

    def _payload_bytes(self, option: Option, given: Conditions, now: float) -> float:
        if given.slots is not None:
            return given.slots.payload_bytes
        return option.payload_bytes * self._payload.factor(option.way, now)

    def _bias_s(self, name: str, now: float) -> float:
        bias_s, at = self._bias.get(name, (0.0, now))
        return float(bias_s * 2 ** (-max(0.0, now - at) / _BIAS_HALF_LIFE_S))

    def _spread_of(
        self, option: Option, trust: float, transfer_s: float, longest_s: float
    ) -> float:
        """Mean deviation over the mean: as seen, if that is not long ago, or what the sizes alone
        bring about."""
        seen = self._spread.get(option.needs_edge, _FIRST_SPREAD)
        if not option.needs_edge or not option.payload_bytes or not longest_s:
            return seen
        varies = option.payload_deviation_bytes / option.payload_bytes
        return max(_FIRST_SPREAD + trust * (seen - _FIRST_SPREAD), varies * transfer_s / longest_s)

    def _joules(self, option: Option, share: float, sent_bytes: float, waiting_s: float) -> float:
        model = self._energy
        macs = option.gates_macs + share * option.device_macs
        return (
            model.joules_per_mac * macs
            + model.joules_per_byte * sent_bytes
            + model.idle_w * waiting_s
        )


def _faded_s(transfer_s: float, given: Conditions, trust: float) -> float:
    """A transfer over a link that has meanwhile become rather an average one."""
    if not given.rate_known or given.slots is not None:
        return transfer_s
    faded = given.rate_bytes_s**trust * ASSUMED_RATE_BYTES_S ** (1 - trust)
    return float(transfer_s * given.rate_bytes_s / faded)
