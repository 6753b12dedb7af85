"""What can go wrong while a plan is made."""

from headtail_fabric.errors import ConfigError


class QuantityError(ConfigError):
    """A number with a unit can't be read. Write rates like 2mbit, 500kbit/s or 1.5gbit, and times
    like 30ms, 1.5s or 250us."""


class PlanFileError(ConfigError):
    """The file is not a plan that `headtail plan --json` wrote for this model. Make one on the
    device itself, with the same model file."""
