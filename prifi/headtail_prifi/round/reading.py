"""What the relay reads in a round once all pads are off."""

from dataclasses import dataclass

from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.messages import NOBODY, Disclosure, Report
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import SealError
from headtail_prifi.round.cell import OpenedCell, echo, open_cell
from headtail_prifi.round.record import Bytes, RoundRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """By sub-slot: who spoke, who let the turn pass, whose cell was disrupted."""

    cells: tuple[tuple[int, OpenedCell], ...]
    """Slot and cell."""
    silent: tuple[int, ...]
    """Slots."""
    disrupted: tuple[tuple[int, int], ...]
    """Sub-slot and slot."""
    report: Report


def read_round(
    record: RoundRecord, opened: Bytes, geometry: Geometry, cipher: PadCipher
) -> Reading:
    """Sort out every sub-slot. What is in one that nobody owns concerns nobody."""
    cells: list[tuple[int, OpenedCell]] = []
    silent: list[int] = []
    disrupted: list[tuple[int, int]] = []
    echoes: list[bytes] = []
    for sub_slot, slot in enumerate(record.owners):
        payload, key = parts(opened, geometry, sub_slot)
        echoes.append(echo(payload, key))
        if slot == NOBODY:
            continue
        if not any(key) and payload == bytes(geometry.cell_bytes):
            silent.append(slot)
            continue
        try:
            cells.append((slot, open_cell(cipher, payload, key)))
        except SealError:
            disrupted.append((sub_slot, slot))
        except FrameError:
            silent.append(slot)
    return Reading(
        cells=tuple(cells),
        silent=tuple(silent),
        disrupted=tuple(disrupted),
        report=Report(
            round=record.round,
            echoes=b"".join(echoes),
            reservations=opened[geometry.reservation_start :].tobytes(),
        ),
    )


def disclose(record: RoundRecord, geometry: Geometry, sub_slot: int) -> Disclosure:
    """A sub-slot of a closed round in full."""
    assert record.opened is not None
    payload, key = parts(record.opened, geometry, sub_slot)
    return Disclosure(round=record.round, sub_slot=sub_slot, payload=payload, key=key)


def parts(opened: Bytes, geometry: Geometry, sub_slot: int) -> tuple[bytes, bytes]:
    """Payload and key of a sub-slot."""
    start = sub_slot * geometry.cell_bytes
    lane = geometry.key_lane_start(sub_slot)
    return (
        opened[start : start + geometry.cell_bytes].tobytes(),
        opened[lane : lane + LANE_BYTES].tobytes(),
    )
