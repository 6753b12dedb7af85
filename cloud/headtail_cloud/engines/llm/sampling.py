"""How the next token of each text is chosen: what a request says of it, and what comes of it.

Plain values, without torch: `choice` does it.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

MAX_ALTERNATIVES: Final = 20


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How one request's tokens are chosen; what a text request's `input` holds, as plain values.

    `alternatives`: with each token its log-probability and that of so many most probable ones;
    None for neither. `bias` is added to the logits of tokens. `embed` asks for the hidden state
    after the prompt in place of a token's probabilities.
    """

    temperature: Annotated[float, Meta(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    alternatives: Annotated[int, Meta(ge=0, le=MAX_ALTERNATIVES)] | None = None
    bias: dict[int, float] = {}
    embed: bool = False

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """`logprob` and `top`, (token, its logprob) with the most probable first, where they were asked
    for: of the model's distribution, before temperature and nucleus."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
