"""A new version that only some devices are offered."""

from pathlib import Path

import pytest

from edge_doubles import Rig, events, send
from headtail_edge.canary import Canaries
from headtail_fabric.peer.events import Answered, BundleAccepted, Connected, Failed
from headtail_fabric.peer.memory import MemoryClient
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen

DEVICES = [f"cam-{number}" for number in range(2000)]


def chosen(bundle: Bundle, share: float) -> set[str]:
    canaries = Canaries({bundle.name: share}, lambda digest: bundle)
    return {device for device in DEVICES if canaries.offered(device, bundle.digest)}


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_about_the_share_is_chosen(specimen: Bundle, share: float) -> None:
    assert len(chosen(specimen, share)) == pytest.approx(share * len(DEVICES), rel=0.25)


def test_nobody_and_everybody_are_shares_too(specimen: Bundle) -> None:
    assert chosen(specimen, 0.0) == set()
    assert chosen(specimen, 1.0) == set(DEVICES)


def test_a_share_that_grows_keeps_whom_it_had(specimen: Bundle) -> None:
    assert chosen(specimen, 0.1) < chosen(specimen, 0.3)


def test_another_bundle_is_tried_on_other_devices(specimen: Bundle, gated: Bundle) -> None:
    both = chosen(specimen, 0.1) & chosen(gated, 0.1)
    assert len(both) < 50


def test_a_bundle_without_a_share_is_for_everyone(specimen: Bundle) -> None:
    canaries = Canaries({"other-1.0": 0.0}, lambda digest: specimen)
    assert canaries.offered("cam-1", specimen.digest)


def test_devices_outside_the_share_are_neither_offered_nor_served_it(
    specimen_path: Path, specimen: Bundle, tmp_path: Path
) -> None:
    newer = open_bundle(write_specimen(tmp_path / "newer", version="2.0"))
    rig = Rig(tmp_path, specimen_path, canary={newer.name: 0.5})
    inside = next(device for device in DEVICES if rig_offers(newer, device))
    outside = next(device for device in DEVICES if not rig_offers(newer, device))
    early = rig.device(user=inside, seed=1)
    left_out = rig.device(user=outside, seed=2)
    rig.registry.load(newer.path)
    rig.step()
    assert events(early) == [BundleAccepted(digest=newer.digest)]
    assert events(left_out) == []
    for user, expected in (
        (inside, {specimen.digest, newer.digest}),
        (outside, {specimen.digest}),
    ):
        client = MemoryClient(rig.link, user=user, seed=len(expected) + 10)
        rig.step()
        (connected,) = events(client)
        assert isinstance(connected, Connected)
        assert set(connected.offer.bundles) == expected
    send(early, newer)
    send(left_out, newer)
    rig.step()
    assert [type(event) for event in events(early)] == [Answered]
    (failed,) = events(left_out)
    assert isinstance(failed, Failed)
    assert (failed.code, "to this device yet" in failed.message) == (
        ErrorCode.UNKNOWN_BUNDLE,
        True,
    )


def rig_offers(bundle: Bundle, device: str) -> bool:
    return Canaries({bundle.name: 0.5}, lambda digest: bundle).offered(device, bundle.digest)
