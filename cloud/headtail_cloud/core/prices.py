"""The parts of an engine's estimate, from the estimate itself.

    seconds = step
            + run + prefill * tokens + first * first tokens + decode * decodes
              + context * positions                             where there is a text
            + several                                           where there is more than a token
            + sum over segments (run + item * items)

An iteration that computes texts reads all weights of a language model, for one token as for many;
one that computes tails alone does not. Matrices times a vector and times several are different
code, and the latter begins at a higher price.
"""

from collections.abc import Callable

import msgspec

from headtail_cloud.core.request import Segment
from headtail_cloud.core.work import Work

Estimate = Callable[[Work], float]
"""Seconds, by that formula."""


class TextPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. `run_s`: of an iteration's texts, however many; `several_s`: more, for more than a
    single token; the others of a prompt's token, the token after a prompt, a decode, a position to
    look back on."""

    run_s: float
    several_s: float
    prefill_s: float
    first_s: float
    decode_s: float
    context_s: float

    def of(self, work: Work) -> float:
        """What the texts of an iteration add to it."""
        if not work.tokens:
            return 0.0
        return (
            self.run_s
            + self.several_s * (work.tokens > 1)
            + self.prefill_s * work.prefill_tokens
            + self.first_s * work.first_tokens
            + self.decode_s * work.decodes
            + self.context_s * work.context_tokens
        )


class SegmentPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, of a segment's batch and of each of its items."""

    run_s: float
    item_s: float

    def of(self, items: int) -> float:
        """What that many of its items add to an iteration."""
        return self.run_s + self.item_s * items if items else 0.0


def text_prices(estimate: Estimate) -> TextPrices:
    """Those that an estimate consists of; zeros for an engine of tails."""
    decode, two, prompt = Work(decodes=1), Work(decodes=2), Work(prefill_tokens=2)

    def more_s(before: Work, added: Work) -> float:
        return max(0.0, estimate(before.plus(added)) - estimate(before))

    decode_s = more_s(two, decode)
    return TextPrices(
        run_s=max(0.0, more_s(Work(), decode) - decode_s),
        several_s=max(0.0, more_s(decode, decode) - decode_s),
        prefill_s=more_s(prompt, Work(prefill_tokens=1)),
        first_s=more_s(prompt, Work(first_tokens=1)),
        decode_s=decode_s,
        context_s=more_s(decode, Work(context_tokens=1)),
    )


def segment_prices(estimate: Estimate, segment: Segment) -> SegmentPrices:
    """That segment's."""
    step_s = estimate(Work())
    one_s, two_s = (estimate(Work(items={segment: count})) for count in (1, 2))
    item_s = max(0.0, two_s - one_s)
    return SegmentPrices(run_s=max(0.0, one_s - item_s - step_s), item_s=item_s)
