"""The way to the edge, or to several of them: addresses, keys, seals, and discovery."""

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headtail_device.config import MDNS, DeviceConfig, EdgeAddress
from headtail_fabric import keys
from headtail_fabric.clock import Clock
from headtail_fabric.discovery import fingerprint
from headtail_fabric.fleet import FleetClient
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.seal import Sealer
from headtail_fabric.seal import key as seal_key

Open = Callable[[str], ZmqClient]


def connect_edge(config: DeviceConfig, digest: bytes, clock: Clock) -> ClientPort:
    """The port of the edge, or of all that are listed; CURVE where there are keys.

    An edge that does not answer is no error. Raises ConnectError, the errors of key files, and
    for an edge that is to be found by mDNS DiscoveryMissingError, DiscoveryError.
    """
    pair = None if config.edge.key is None else keys.load(config.edge.key)
    addresses = config.addresses
    opens = [_opener(config, address, pair, digest, clock) for address in addresses]
    if len(addresses) == 1 and addresses[0].endpoint != MDNS:
        return opens[0](addresses[0].endpoint)
    fleet = FleetClient(opens, bundle=digest, clock=clock)
    try:
        _locate(addresses, fleet)
    except BaseException:
        fleet.close()
        raise
    return fleet


def _locate(addresses: tuple[EdgeAddress, ...], fleet: FleetClient) -> None:
    wanted: dict[str, Callable[[str], None]] = {}
    for edge, address in enumerate(addresses):
        if address.endpoint == MDNS:
            public = _public_key(address.server_key)
            wanted[fingerprint(public)] = partial(fleet.located, edge)
        else:
            fleet.located(edge, address.endpoint)
    if wanted:
        # Only now: who gives addresses does not need the package.
        from headtail_fabric.discovery.mdns import Browser

        fleet.at_close(Browser(wanted).close)


def _opener(
    config: DeviceConfig, address: EdgeAddress, pair: KeyPair | None, digest: bytes, clock: Clock
) -> Open:
    """What connects to that edge, wherever it is. Keys are read now, so that a wrong one is said
    at the start."""
    server_key = _public_key(address.server_key) if address.server_key else None
    recipient = seal_key.public_key(address.seal_to) if address.seal_to else None

    def connect(endpoint: str) -> ZmqClient:
        sealer = None
        if recipient is not None:
            pad_bytes = config.edge.seal_pad_bytes
            sealer = Sealer(recipient, pad_bytes=pad_bytes, random=secrets.token_bytes)
        return ZmqClient(
            endpoint,
            name=config.name,
            bundles=(digest,),
            can_push=config.edge.push_bundles,
            keys=pair,
            server_key=server_key,
            sealer=sealer,
            clock=clock,
        )

    return connect


def _public_key(text: str) -> str:
    """A key as it is, or out of a .pub file."""
    path = Path(text)
    if path.suffix == ".pub":
        return keys.load_public(path.expanduser()).public
    return keys.check_public(text)
