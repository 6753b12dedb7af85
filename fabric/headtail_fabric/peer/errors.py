"""What can go wrong at a peer, for the program around it."""

from headtail_fabric.errors import LocalError, PeerError, ResourceError


class WindowFullError(LocalError):
    """More requests are in flight than the edge allows, or there is no connection. Wait for an
    event before submitting the next one."""


class StateError(LocalError):
    """A peer core was told something that can't happen in its state. Please report this bug."""


class ConnectError(PeerError):
    """The edge did not accept a session. Check that it runs, that the address and port are right,
    that this device's key is enrolled there, and that the server key given here is the edge's."""


class BindError(ResourceError):
    """The address can't be bound. Choose another port, or stop the program that holds it."""
