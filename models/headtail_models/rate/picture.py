"""Ways to send a picture as a picture: as it is, as the network sees it, or shrunk."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headtail_models.entrance import Frame
from headtail_models.rate import codecs
from headtail_models.rate.method import Method, Sent, Whole
from headtail_models.rate.view import Viewer, shrunk

QUALITIES: Final[Mapping[str, tuple[int, ...]]] = {
    "jpeg": (5, 10, 15, 20, 30, 40, 50, 75, 90, 95),
    "webp": (1, 5, 15, 30, 50, 75, 90, 95),
    "avif": (20, 30, 40, 50, 60, 70, 80),
}
SHARES: Final = (0.75, 0.5)
"""Sides of a shrunk picture over those of the network's view."""
SHRUNK_QUALITIES: Final[Mapping[str, tuple[int, ...]]] = {
    "jpeg": (20, 50, 75, 90),
    "webp": (5, 30, 50, 75, 90),
    "avif": (30, 50, 70),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NativePicture:
    """The picture as it is, in a picture codec."""

    codec: codecs.Kind
    quality: int
    viewer: Viewer
    whole: Whole
    cut: str = ""
    origin: str = ""

    @property
    def codec_id(self) -> str:
        return self.codec

    @property
    def family(self) -> str:
        return f"{self.codec}, native"

    @property
    def setting(self) -> str:
        return f"q{self.quality}"

    def send(self, frame: Frame) -> Sent:
        data = codecs.encode(frame, self.codec, self.quality)
        view = self.viewer.view(codecs.decode(data))
        tensor = self.viewer.tensor(view, (view.shape[1], view.shape[0]))
        return Sent(size_bytes=len(data), outputs=self.whole(tensor))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ViewedPicture:
    """The network's view of the picture, or that shrunk to `share`, in a picture codec; the server
    enlarges it again."""

    codec: codecs.Kind
    quality: int
    share: float
    viewer: Viewer
    whole: Whole
    cut: str = ""
    origin: str = ""

    @property
    def codec_id(self) -> str:
        return self.codec

    @property
    def family(self) -> str:
        return f"{self.codec}, {'network size' if self.share == 1 else 'shrunk'}"

    @property
    def setting(self) -> str:
        return f"q{self.quality}" if self.share == 1 else f"{self.share:.3g} q{self.quality}"

    def send(self, frame: Frame) -> Sent:
        view = self.viewer.view(frame)
        sent = view if self.share == 1 else shrunk(view, self.share)
        data = codecs.encode(sent, self.codec, self.quality)
        tensor = self.viewer.tensor(codecs.decode(data), (view.shape[1], view.shape[0]))
        return Sent(size_bytes=len(data), outputs=self.whole(tensor))


def picture_methods(
    viewer: Viewer, whole: Whole, *, kinds: Sequence[codecs.Kind]
) -> Iterator[Method]:
    """Every rival that sends a picture."""
    for kind in kinds:
        for quality in QUALITIES[kind]:
            yield NativePicture(codec=kind, quality=quality, viewer=viewer, whole=whole)
        for share in (1.0, *SHARES):
            for quality in (QUALITIES if share == 1 else SHRUNK_QUALITIES)[kind]:
                yield ViewedPicture(
                    codec=kind, quality=quality, share=share, viewer=viewer, whole=whole
                )
