"""An accepted request on its way: the unit of placement, retry and accounting.

A tail is one job along its chain of segments. A text is a prefill, then decodes; when its blocks
are taken away it is a prefill again, of the prompt and of what it has already said.
"""

from collections.abc import Sequence

from headtail_cloud.core.block_pool import HashChain
from headtail_cloud.core.request import Segment, TailRequest, TextRequest


class _Job:
    """What all jobs have. `number`: order of arrival; `alone`: it was part of a step that failed,
    and runs by itself from now on; `held`: no iteration may take it, for it is about to move to
    another engine; `late`: a time that was promised was not kept."""

    __slots__ = (
        "alone",
        "arrived_at",
        "cancelled",
        "exit_policy",
        "held",
        "in_step",
        "last_run_at",
        "late",
        "number",
        "started_at",
    )

    def __init__(self, request: TailRequest | TextRequest, number: int, now: float) -> None:
        self.number = number
        self.arrived_at = now
        self.started_at: float | None = None
        self.last_run_at = now
        self.late = False
        self.exit_policy = request.exit_policy()
        self.in_step = False
        self.cancelled = False
        self.alone = False
        self.held = False


class TailJob(_Job):
    """A tail at the segment `chain[at]`."""

    __slots__ = ("at", "chain", "input", "request")

    def __init__(
        self, request: TailRequest, chain: Sequence[Segment], *, number: int, now: float
    ) -> None:
        super().__init__(request, number, now)
        self.request = request
        self.chain = tuple(chain)
        self.at = 0
        self.input = request.input

    def __repr__(self) -> str:
        return f"<TailJob {self.request.id} at {self.segment}>"

    @property
    def tenant(self) -> str:
        return self.request.tenant

    @property
    def deadline_at(self) -> float:
        return self.arrived_at + self.request.deadline_s

    @property
    def segment(self) -> Segment:
        return self.chain[self.at]

    @property
    def later(self) -> tuple[Segment, ...]:
        """The segments after this one."""
        return self.chain[self.at + 1 :]

    @property
    def to_run(self) -> tuple[Segment, ...]:
        """The segments that no iteration runs yet."""
        return self.later if self.in_step else self.chain[self.at :]

    @property
    def ran(self) -> int:
        return self.at


class TextJob(_Job):
    """A text: `computed` of its `tokens` have their entries in `blocks`; the running iteration
    computes `in_flight` more."""

    __slots__ = (
        "blocks",
        "chain",
        "computed",
        "first_token_at",
        "in_flight",
        "last_token_at",
        "max_tokens",
        "request",
        "tokens",
    )

    def __init__(
        self, request: TextRequest, max_tokens: int, *, number: int, now: float, block_tokens: int
    ) -> None:
        super().__init__(request, number, now)
        self.request = request
        self.max_tokens = max_tokens
        self.tokens = list(request.prompt)
        self.computed = 0
        self.in_flight = 0
        self.blocks: list[int] = []
        self.chain = chain_of(request, block_tokens)
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None

    def __repr__(self) -> str:
        kind = "decode" if self.decoding else "prefill"
        return f"<TextJob {self.request.id} {kind} {self.computed}/{len(self.tokens)}>"

    @property
    def tenant(self) -> str:
        return self.request.tenant

    @property
    def deadline_at(self) -> float | None:
        limit = self.request.deadline_s
        return None if limit is None else self.arrived_at + limit

    @property
    def ran(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def remaining(self) -> int:
        """Tokens without entries yet."""
        return len(self.tokens) - self.computed

    @property
    def decoding(self) -> bool:
        """Whether all but the last token it said is computed."""
        return self.ran > 0 and self.remaining == 1

    @property
    def next_due_at(self) -> float:
        """When its caller expects the next token."""
        if self.last_token_at is None:
            return self.arrived_at + self.request.ttft_s
        return self.last_token_at + self.request.tbt_s


Job = TailJob | TextJob


def chain_of(request: TextRequest, block_tokens: int) -> HashChain:
    """Where the hashes of a request's blocks begin: shared with its tenant's requests to the same
    model, or with nobody."""
    salt = (request.model, request.tenant)
    return HashChain(salt if request.share_prefix else (*salt, request.id), block_tokens)
