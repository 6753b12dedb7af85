"""What can keep a measurement from being made."""

from headtail_fabric.errors import ConfigError


class RateError(ConfigError):
    """Accuracy against bytes can't be measured like this: see the message. `headtail bench
    rate-accuracy --help` shows what it takes."""
