"""What was found out about a built-in network on photos, and is released with its recipe."""

import re
from importlib.resources import files
from typing import Final

import msgspec

from headtail_models.bundle.manifest import Measured, MeasuredPicture, QuantiserTable

CALIBRATION: Final = "calibration"
MEASURED: Final = "measured"
_LIST: Final = re.compile(rb"\[[-+.0-9eE,\s]+\]")


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Calibration(_Record, frozen=True, kw_only=True):
    """Quantiser tables by cut and codec, and the photos that they were found on."""

    network: str
    photos: str
    cuts: dict[str, dict[str, QuantiserTable]]


class Accuracy(_Record, frozen=True, kw_only=True):
    """What the network gives at each cut with each codec, and of the picture itself in others, on
    photos nothing was chosen on."""

    network: str
    metric: str
    split: str
    full_value: float
    cuts: dict[str, tuple[Measured, ...]]
    pictures: tuple[MeasuredPicture, ...] = ()


def read_calibration(network: str) -> Calibration:
    """The released tables of a built-in network."""
    return msgspec.json.decode(_text(CALIBRATION, network), type=Calibration)


def read_accuracy(network: str) -> Accuracy:
    """The released accuracy of a built-in network."""
    return msgspec.json.decode(_text(MEASURED, network), type=Accuracy)


def encode(record: Calibration | Accuracy) -> bytes:
    """A record as it is released: a list of numbers is one line, so that changes can be read."""
    spread = msgspec.json.format(msgspec.json.encode(record), indent=1)
    return _LIST.sub(lambda found: b"".join(found[0].split()), spread) + b"\n"


def _text(kind: str, network: str) -> str:
    return files(__package__).joinpath(kind, f"{network}.json").read_text(encoding="utf-8")
