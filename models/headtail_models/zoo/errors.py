"""What can go wrong while a bundle is built."""

from headtail_fabric.errors import ConfigError


class UnknownModelError(ConfigError):
    """No built-in bundle has that name. `headtail bundle list` shows those that can be built."""


class MissingExtraError(ConfigError):
    """Building bundles needs packages that running them does not. Install the extra named in the
    message."""
