"""What can go wrong on the way from a registry into the cache. Docstrings are the advice."""

from headtail_fabric.errors import ConfigError, PeerError, ResourceError


class UnknownAssetError(ConfigError):
    """No asset has that name. `headtail assets list` shows those that there are."""


class IndexSettingsError(ConfigError):
    """pip's settings name no package index that can be used. Look at `pip config list` and at the
    PIP_ variables of the environment."""


class NpmMissingError(ConfigError):
    """The asset comes from an npm package and there is no `npm` command. Install npm, or put one
    that works on the PATH."""


class UnreachableError(ResourceError):
    """The package registry can't be reached. Check the network, the proxy and pip's (or npm's)
    settings, then try again: what was loaded so far is kept. Assets that were fetched before work
    without a network."""


class NotPublishedError(PeerError):
    """The registry does not have the file that the asset names. Use another index, by pip's or
    npm's settings: a mirror may be incomplete."""


class WrongContentError(PeerError):
    """What the registry sent is not the file that Headtail was released with: a checksum or a size
    differs. Nothing of it was kept. Try again; if it happens again, don't trust that registry."""


class BadArchiveError(PeerError):
    """The archive can't be read or does not hold the member that the asset names. Try again; if it
    happens again, the asset's entry is wrong: please report it."""


class DiskFullError(ResourceError):
    """There is not enough room for the cache. Free some space, or point XDG_CACHE_HOME to a disk
    that has some."""


class CacheError(ResourceError):
    """The cache directory can't be written. Correct its permissions, or point XDG_CACHE_HOME to a
    directory that you own."""
