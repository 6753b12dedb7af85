"""The front ends that boards have, by the way a bundle prepares its frames."""

from headtail_models.bundle.manifest import LogMel, Preparation, Signal
from headtail_models.mcu import log_mel_front, motion_front
from headtail_models.mcu.errors import FrontEndError
from headtail_models.mcu.log_mel_front import LogMelFront
from headtail_models.mcu.motion_front import MotionFront
from headtail_models.mcu.ranges import Quantiser

Front = LogMelFront | MotionFront
"""A front end as the board computes it, bit for bit."""


def make_front(way: Preparation, quantiser: Quantiser) -> bytes:
    """The section of a blob whose head reads by `quantiser`. Raises FrontEndError."""
    if isinstance(way, LogMel):
        return log_mel_front.make_front(way.front(), quantiser)
    if isinstance(way, Signal):
        return motion_front.make_front(way, quantiser)
    raise FrontEndError("pictures: boards have front ends for sounds and for readings of sensors")


def read_front(section: bytes) -> Front:
    """The front end in a program. Raises BlobError."""
    if section[:1] == bytes([motion_front.KIND]):
        return motion_front.read_front(section)
    return log_mel_front.read_front(section)
