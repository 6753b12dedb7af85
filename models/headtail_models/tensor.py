"""What is known of a tensor before it is there."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

Dim = Annotated[int, Meta(ge=1, le=65_536)]
Shape = Annotated[tuple[Dim, ...], Meta(min_length=1, max_length=5)]
_NO_CONTROLS: Final = r"^[^\x00-\x1f\x7f-\x9f]*\Z"
Line = Annotated[str, Meta(max_length=1000, pattern=_NO_CONTROLS)]
"""Text without control characters: it ends up on terminals and in logs."""
Word = Annotated[str, Meta(max_length=64, pattern=_NO_CONTROLS)]


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tensor at a stage's border; `shape` without the batch axis."""

    name: Word
    dtype: Literal["float32", "uint8"]
    shape: Shape
