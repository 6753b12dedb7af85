"""Property 10: there is no switch to turn a protection off, and outputs say what is on."""

import inspect
from dataclasses import fields

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.protections import Protections
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.guard import GuardCore
from headtail_prifi.round.options import ClientOptions, RelayOptions
from headtail_prifi.round.relay import RelayCore
from headtail_prifi.swarm import Swarm, set_scene


def test_p10_protections_are_printed_beside_figures() -> None:
    swarm = Swarm(set_scene(3, 2, Geometry(clients=3, cell_bytes=128)))
    line = str(swarm.protections)
    for wanted in (
        "equivocation lock on",
        "disruption blame on",
        "verifiable key shuffle on",
        "downstream signed and chained on",
        "AES-256-CTR",
        "3 clients (at least 2), 2 guards",
    ):
        assert wanted in line
    assert "\n" not in line
    assert isinstance(swarm.protections, Protections)


def test_p10_protections_have_no_switch() -> None:
    """No option of any role, and no value of the geometry, is a truth value."""
    for options in (ClientOptions(), RelayOptions()):
        for field in fields(options):
            assert not isinstance(getattr(options, field.name), bool)
    assert not any(
        isinstance(value, bool) for value in vars(Geometry(clients=2, cell_bytes=128)).values()
    )
    for core in (ClientCore, RelayCore, GuardCore):
        for parameter in inspect.signature(core).parameters.values():
            assert parameter.annotation not in (bool, "bool")
