"""What a caller asks for.

A request names its tenant by a string that is only ever compared: an anonymous one may be a token
that can't be linked to anything.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headtail_cloud.core.exit_policy import ExitPolicy, NeverExit


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """Part of a model that runs as one: what requests can be batched at."""

    model: str
    """With its version, such as `yolov3-tiny@1.0`."""
    name: str

    def __str__(self) -> str:
        return f"{self.model}#{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRequest:
    """A tensor that crossed a cut, and the segments still to run on it, in their order.

    `fallbacks` are cheaper chains that would do, best first: an earlier exit, another cut.
    `deadline_s` counts from the arrival. `input` is for the engine alone.
    """

    id: str
    tenant: str
    chain: tuple[Segment, ...]
    deadline_s: float
    input: object = None
    fallbacks: tuple[tuple[Segment, ...], ...] = ()
    priority: int = 0
    exit_policy: Callable[[], ExitPolicy] = NeverExit

    def __post_init__(self) -> None:
        if self.deadline_s <= 0 or not all((self.chain, *self.fallbacks)):
            raise ValueError("a tail needs a segment to run and time to run it in")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """Token ids to continue.

    `ttft_s` is the time to the first token that its caller wants, `tbt_s` that between tokens;
    `deadline_s`, if any, ends it. `fallback_tokens`: smaller `max_tokens` that would do, best
    first. With `share_prefix` its tenant's other requests may use its key-value blocks. `input` is
    for the engine alone, such as how tokens are sampled.
    """

    id: str
    tenant: str
    model: str
    prompt: tuple[int, ...]
    max_tokens: int
    ttft_s: float
    tbt_s: float
    stop_tokens: frozenset[int] = frozenset()
    deadline_s: float | None = None
    input: object = None
    fallback_tokens: tuple[int, ...] = ()
    share_prefix: bool = True
    priority: int = 0
    exit_policy: Callable[[], ExitPolicy] = NeverExit

    def __post_init__(self) -> None:
        if not self.prompt or min(self.max_tokens, *self.fallback_tokens, 1) < 1:
            raise ValueError("a text needs a token to begin with and one to end with")
        if min(self.ttft_s, self.tbt_s) <= 0 or (self.deadline_s or 1) <= 0:
            raise ValueError("times must be positive")


Request = TailRequest | TextRequest
