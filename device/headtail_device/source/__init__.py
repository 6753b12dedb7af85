"""Where frames come from."""

from headtail_device.source.frame import Captured, Dropped, Frame, Item, Source, Unreadable
from headtail_device.source.opening import SourceOpener

__all__ = [
    "Captured",
    "Dropped",
    "Frame",
    "Item",
    "Source",
    "SourceOpener",
    "Unreadable",
]
