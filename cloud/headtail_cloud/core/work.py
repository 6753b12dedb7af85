"""What a set of tasks consists of, as far as its cost goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headtail_cloud.core.request import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """`first_tokens`: prompts that end, and are answered with a token; `context_tokens`: positions
    that the decodes and chunks look back on, summed."""

    prefill_tokens: int = 0
    first_tokens: int = 0
    decodes: int = 0
    context_tokens: int = 0
    items: Mapping[Segment, int] = field(default_factory=dict)

    def plus(self, other: "Work") -> "Work":
        items = dict(self.items)
        for segment, count in other.items.items():
            items[segment] = items.get(segment, 0) + count
        return Work(
            prefill_tokens=self.prefill_tokens + other.prefill_tokens,
            first_tokens=self.first_tokens + other.first_tokens,
            decodes=self.decodes + other.decodes,
            context_tokens=self.context_tokens + other.context_tokens,
            items=items,
        )

    @property
    def tokens(self) -> int:
        """What Sarathi's budget counts."""
        return self.prefill_tokens + self.decodes


def chunk_work(start: int, tokens: int, *, last: bool) -> Work:
    """A prefill chunk's: each of its tokens looks back on all before it. The `last` one of a prompt
    gives a token."""
    context = tokens * start + tokens * (tokens - 1) // 2
    return Work(prefill_tokens=tokens, first_tokens=int(last), context_tokens=context)
