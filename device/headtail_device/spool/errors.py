"""What can go wrong with a spool."""

from headtail_fabric.errors import ConfigError, ResourceError


class SpoolError(ResourceError):
    """The spool's folder can't be used. Check that it is a folder of this machine, that this user
    may write there, and that the disk is sound; or leave spool.folder unset to do without."""


class SpoolInUseError(ConfigError):
    """Another device process uses that spool. Give each device a folder of its own
    (spool.folder), or stop the other process."""


class SpoolWriteError(ResourceError):
    """The disk did not take a frame, so it was answered on the device instead. Free some space, or
    make spool.max_mb smaller than what the disk can spare."""


class DamagedEntryError(ResourceError):
    """A spooled frame can't be read back: the disk damaged it, or another version of Headtail wrote
    it. It counts as failed; the others are not touched."""
