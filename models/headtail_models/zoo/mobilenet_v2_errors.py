"""What can be wrong with published weights."""

from headtail_fabric.errors import ConfigError


class WeightsError(ConfigError):
    """The file of weights can't be read or holds another network. Fetch it again with
    `headtail assets fetch`; if it is the one that was published, report this."""
