"""Bundles from devices, over a link in memory, into a real folder."""

import errno
import logging
import os
import queue
from pathlib import Path
from typing import Any

import pytest

from edge_doubles import Rig, events, send
from headtail_edge.part_store import PartStore
from headtail_edge.push import REFUSED_S, STALLED_S, BundleOffered
from headtail_fabric.peer.events import (
    Answered,
    BundleAccepted,
    BundleDeclined,
    BundlePartArrived,
    BundleWanted,
    ClientEvent,
    Failed,
    SessionClosed,
)
from headtail_fabric.peer.memory import MemoryClient
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle import Bundle


@pytest.fixture(scope="session")
def packed(specimen: Bundle, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The specimen as a device sends it, a few kilobytes."""
    return specimen.pack(tmp_path_factory.mktemp("packed")).read_bytes()


def pusher(rig: Rig, bundle: Bundle, **options: Any) -> MemoryClient:
    """A device that uses a bundle and can push it."""
    client = MemoryClient(rig.link, bundles=(bundle.digest,), can_push=True, **options)
    rig.step()
    return client


def kinds(found: list[ClientEvent]) -> list[str]:
    return [type(event).__name__ for event in found]


def test_a_device_is_asked_for_a_bundle_that_is_lacking(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    device = pusher(rig, specimen)
    assert BundleWanted(digest=specimen.digest) in events(device)
    device.push_bundle(specimen.digest, packed)
    rig.step()
    assert BundleAccepted(digest=specimen.digest) in events(device)
    assert rig.registry.get(specimen.digest) is not None
    send(device, specimen)
    rig.step()
    assert isinstance(events(device)[-1], Answered)
    assert rig.counted.totals["edge_pushes"] == {("accepted",): 1}
    assert [p.name for p in (tmp_path / "pushed").glob("*.part")] == []


def test_a_bundle_that_is_served_is_not_asked_for(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, specimen_path, push=True)
    assert kinds(events(pusher(rig, specimen))) == ["Connected"]


def test_a_request_for_a_lacking_bundle_fails_and_has_it_asked_for(
    specimen: Bundle, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    device = rig.device(can_push=True)
    send(device, specimen)
    rig.step()
    failed, wanted = events(device)
    assert isinstance(failed, Failed)
    assert failed.code is ErrorCode.UNKNOWN_BUNDLE
    assert failed.message == "this edge does not serve that bundle yet, and asks for it"
    assert wanted == BundleWanted(digest=specimen.digest)


def test_who_may_not_push_is_not_asked(specimen: Bundle, tmp_path: Path) -> None:
    rig = Rig(tmp_path, push=True, may_push=lambda user: user == "operator")
    device = pusher(rig, specimen, user="cam-1")
    send(device, specimen)
    rig.step()
    assert kinds(events(device)) == ["Connected", "Failed"]
    operator = pusher(rig, specimen, user="operator", seed=5)
    assert BundleWanted(digest=specimen.digest) in events(operator)


def test_an_edge_that_takes_none_and_a_device_that_has_none_just_fail(
    specimen: Bundle, tmp_path: Path
) -> None:
    for takes, has in ((False, True), (True, False)):
        rig = Rig(tmp_path / f"{takes}", push=takes)
        device = rig.device(can_push=has)
        send(device, specimen)
        rig.step()
        (failed,) = events(device)
        assert isinstance(failed, Failed)
        assert failed.message == "this edge does not serve that bundle"


def feed(rig: Rig, packed: bytes, *, until: int, size: int = 700) -> int:
    """Play the sender that was asked last: small parts from where it was asked on, up to `until`.
    Returns where it began."""
    session, digest, begin = rig.port.asked[-1]
    offset = begin
    while offset < until:
        payload = packed[offset : min(offset + size, until)]
        part = BundlePartArrived(
            session=session,
            user="",
            digest=digest,
            offset=offset,
            total=len(packed),
            payload=payload,
        )
        rig.server.handle(part)
        rig.step()
        offset += len(payload)
    return begin


def test_a_transfer_goes_on_with_another_device(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    first = pusher(rig, specimen)
    feed(rig, packed, until=1400)
    assert rig.port.asked[-1][2] == 1400
    pusher(rig, specimen, seed=5)
    first.close()
    rig.step()
    assert feed(rig, packed, until=len(packed)) == 1400
    assert rig.registry.get(specimen.digest) is not None


def test_what_came_before_a_restart_is_not_sent_again(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    before = Rig(tmp_path, push=True)
    pusher(before, specimen)
    feed(before, packed, until=1000)
    after = Rig(tmp_path, push=True)
    pusher(after, specimen)
    assert feed(after, packed, until=len(packed)) == 1000
    assert after.registry.get(specimen.digest) is not None


def test_another_packing_of_the_same_bundle_begins_anew(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    device = pusher(rig, specimen)
    parts = PartStore(tmp_path / "pushed")
    device.close()
    rig.step()
    parts.append(specimen.digest, offset=0, total=len(packed) + 1, payload=b"PK another")
    pusher(rig, specimen, seed=5)
    assert rig.port.asked[-1][2] == 10
    feed(rig, packed, until=12)
    assert rig.port.asked[-1][2] == 0
    feed(rig, packed, until=len(packed))
    assert rig.registry.get(specimen.digest) is not None


def test_a_bundle_that_was_complete_before_a_restart_is_served(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    path = tmp_path / "pushed" / f"{specimen.digest.hex()}-{len(packed)}.part"
    path.write_bytes(packed)
    device = pusher(rig, specimen)
    assert BundleAccepted(digest=specimen.digest) in events(device)


def test_a_silent_device_is_asked_again(specimen: Bundle, tmp_path: Path) -> None:
    rig = Rig(tmp_path, push=True)
    device = pusher(rig, specimen)
    events(device)
    rig.clock.advance(STALLED_S)
    before = rig.port.traffic().messages_down
    rig.intake.ask()
    rig.link.carry()
    assert rig.port.traffic().messages_down > before


def test_a_damaged_bundle_is_refused_and_its_sender_told_why(
    specimen: Bundle, packed: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path, push=True)
    device, bystander = pusher(rig, specimen), rig.device(seed=9)
    damaged = packed[:3000] + bytes([packed[3000] ^ 1]) + packed[3001:]
    with caplog.at_level(logging.WARNING):
        device.push_bundle(specimen.digest, damaged)
        rig.step()
    assert "pushed bundle refused" in caplog.messages
    (told,) = [event for event in events(device) if isinstance(event, BundleDeclined)]
    assert told.digest == specimen.digest
    assert told.reason
    assert rig.registry.digests() == ()
    assert rig.counted.totals["edge_pushes"] == {("refused",): 1}
    assert [p.name for p in (tmp_path / "pushed").glob("*.part")] == []
    assert events(bystander) == []


def test_a_refused_bundle_is_asked_for_again_after_a_while(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    device = pusher(rig, specimen)
    device.push_bundle(specimen.digest, packed[:-1] + b"x")
    rig.step()
    assert kinds(events(device))[-1] == "BundleDeclined"
    send(device, specimen)
    rig.step()
    (failed,) = events(device)
    assert isinstance(failed, Failed)
    assert failed.message.startswith("this edge did not take that bundle: ")
    other = pusher(rig, specimen, user="another", seed=5)
    assert BundleWanted(digest=specimen.digest) in events(other)
    other.close()
    rig.step()
    asked = len(rig.port.asked)
    for _ in range(round(REFUSED_S)):
        rig.clock.advance(1.0)
        rig.step()
    assert rig.port.asked[asked:] == [(rig.port.asked[0][0], specimen.digest, 0)]
    feed(rig, packed, until=len(packed))
    assert BundleAccepted(digest=specimen.digest) in events(device)


def test_a_bundle_over_the_limit_is_refused_at_its_first_part(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True, max_bundle_bytes=1000)
    device = pusher(rig, specimen)
    device.push_bundle(specimen.digest, packed)
    rig.step()
    assert "the limit is 1000" in str(events(device))
    assert list((tmp_path / "pushed").iterdir()) == []


def test_another_bundle_than_asked_for_is_refused(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    device = MemoryClient(rig.link, bundles=(bytes(32),), can_push=True)
    rig.step()
    device.push_bundle(bytes(32), packed)
    rig.step()
    assert "came in place of" in str(events(device))
    assert rig.registry.digests() == ()


def test_a_full_disk_costs_only_the_bundle(
    specimen: Bundle, packed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, push=True)
    device, bystander = pusher(rig, specimen), rig.device(seed=9)
    real_open = Path.open

    def full(path: Path, mode: str = "r", **options: Any) -> Any:
        if path.suffix == ".part" and mode != "rb":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_open(path, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    device.push_bundle(specimen.digest, packed)
    rig.step()
    assert "No space left on device" in str(events(device))
    assert events(bystander) == []


def test_parts_that_nobody_asked_for_are_left_out(
    specimen: Bundle, packed: bytes, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    part = BundlePartArrived(
        session=b"s" * 16,
        user="",
        digest=specimen.digest,
        offset=0,
        total=len(packed),
        payload=packed,
    )
    rig.server.handle(part)
    rig.step()
    assert list((tmp_path / "pushed").iterdir()) == []


def test_what_comes_too_fast_is_dropped_but_the_end_of_a_session_is_not(
    specimen: Bundle, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, push=True)
    for number in range(1000):
        session = number.to_bytes(16, "big")
        rig.intake.post(BundleOffered(session=session, user="", digest=specimen.digest))
    for number in range(1000):
        rig.intake.post(SessionClosed(session=number.to_bytes(16, "big"), reason="gone"))
    handled = 0
    while rig.intake.work(0.0):
        handled += 1
    assert 1000 < handled < 1100
    asked = len(rig.port.asked)
    rig.clock.advance(STALLED_S)
    rig.intake.ask()
    assert len(rig.port.asked) == asked


def test_a_bundle_that_breaks_the_intake_is_refused(
    specimen: Bundle,
    packed: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(tmp_path, push=True)
    device = pusher(rig, specimen)

    def break_down(*_: object) -> Path:
        raise RuntimeError("a bug")

    monkeypatch.setattr(rig.pushed, "take_in", break_down)
    with caplog.at_level(logging.CRITICAL):
        device.push_bundle(specimen.digest, packed)
        rig.step()
    declined = BundleDeclined(digest=specimen.digest, reason="the edge failed")
    assert declined in events(device)
    assert rig.counted.totals["edge_pushes"] == {("refused",): 1}


def test_the_thread_survives_a_message_that_breaks_it_and_stops_when_told(
    specimen: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(tmp_path, push=True)
    handled: queue.Queue[object] = queue.Queue()

    def handle(message: object) -> None:
        handled.put(message)
        if handled.qsize() == 1:
            raise RuntimeError("a bug")

    monkeypatch.setattr(rig.intake, "handle", handle)
    offer = BundleOffered(session=b"s" * 16, user="", digest=specimen.digest)
    with caplog.at_level(logging.CRITICAL):
        rig.intake.start()
        rig.intake.post(offer)
        rig.intake.post(offer)
        assert handled.get(timeout=10) is offer
        assert handled.get(timeout=10) is offer
        rig.intake.stop(10.0)
