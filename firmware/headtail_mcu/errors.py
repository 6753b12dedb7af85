"""What can go wrong on a node. The message says what to do."""


class NodeError(Exception):
    """Root of the firmware's own errors."""


class HeadError(NodeError):
    """A head that can't be run: damaged, made for other firmware, or too large."""


class LinkError(NodeError):
    """The other side of a link did something that this side can't accept."""


class RefusedError(LinkError):
    """The server refused this node's credentials; asking again with the same ones is of no use."""


class StoreError(NodeError):
    """A file of the node does not hold what it should."""


class ConfigError(NodeError):
    """A file of settings is wrong; correct the value that the message names."""
