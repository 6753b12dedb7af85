"""The published bottlenecks by name, with where each belongs in a ResNet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from headtail_models.bottleneck.block import Bottleneck
from headtail_models.bottleneck.bottlefit import bottlefit
from headtail_models.bottleneck.entropic_student import entropic_student
from headtail_models.bottleneck.errors import UnknownPresetError
from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd

_STEM: Final = ("conv1", "bn1", "relu", "maxpool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`build` takes the channels that cross, and the builder's own arguments by keyword; `replaces`
    names the layers of a ResNet that the block stands for; `published` channel counts."""

    name: str
    build: Callable[..., Bottleneck]
    replaces: tuple[str, ...]
    published: tuple[int, ...]


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Preset(
                name="hnd-ghnd",
                build=hnd_ghnd,
                replaces=("layer1",),
                published=(3, 6, 9, 12),
            ),
            Preset(
                name="bottlefit",
                build=bottlefit,
                replaces=(*_STEM, "layer1", "layer2"),
                published=(1, 2, 3, 6, 9, 12),
            ),
            Preset(
                name="bottlefit-1",
                build=partial(bottlefit, version=1),
                replaces=(*_STEM, "layer1", "layer2"),
                published=(3, 6, 9, 12),
            ),
            Preset(
                name="bottlefit-3",
                build=partial(bottlefit, version=3),
                replaces=(*_STEM, "layer1", "layer2"),
                published=(3, 6, 9, 12, 15, 18, 21, 24),
            ),
            Preset(
                name="entropic-student",
                build=entropic_student,
                replaces=(*_STEM, "layer1"),
                published=(24,),
            ),
        )
    }
)


def preset(name: str) -> Preset:
    """Raises UnknownPresetError."""
    try:
        return PRESETS[name]
    except KeyError:
        known = ", ".join(PRESETS)
        raise UnknownPresetError(f"no bottleneck is called {name!r}; there are {known}") from None
