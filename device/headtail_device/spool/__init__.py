"""Frames that wait on disk until the edge is back."""

from headtail_device.spool.backlog import Backlog, Waiting
from headtail_device.spool.disk import FolderDisk
from headtail_device.spool.log import SpoolLog
from headtail_device.spool.spooler import NO_SPOOL, SpoolCount, Spooler, SpoolSettings

__all__ = [
    "NO_SPOOL",
    "Backlog",
    "FolderDisk",
    "SpoolCount",
    "SpoolLog",
    "SpoolSettings",
    "Spooler",
    "Waiting",
]
