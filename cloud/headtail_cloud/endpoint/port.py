"""The port that edges connect to."""

from headtail_cloud.config import EdgesConfig
from headtail_fabric import keys
from headtail_fabric.allowlist import AllowList
from headtail_fabric.errors import ConfigError
from headtail_fabric.peer.zmq_server import ZmqServer


class HalfSecuredEndpointError(ConfigError):
    """A key and an allow-list go together: the key encrypts, the list says which edges may connect.
    Give both (`edges.key`, `edges.allow_list`), or neither for edges on this machine only."""


def open_port(config: EdgesConfig) -> ZmqServer | None:
    """Bound, or None where there is to be none. Raises HalfSecuredEndpointError, BindError,
    ConfigError for an exposed address, KeyFileError."""
    if not config.bind:
        return None
    if (config.key is None) != (config.allow_list is None):
        given = "edges.key" if config.key else "edges.allow_list"
        raise HalfSecuredEndpointError(f"{given} is given alone")
    return ZmqServer(
        config.bind,
        name=config.name,
        agent="headtail cloud",
        window=config.window,
        keys=keys.load(config.key) if config.key is not None else None,
        allow_list=AllowList(config.allow_list) if config.allow_list is not None else None,
    )
