"""What can't be asked for, or set."""

import pytest

from cloud_doubles import tail, text
from headtail_cloud.core.options import SchedulerOptions


def test_a_tail_needs_a_segment_and_time() -> None:
    with pytest.raises(ValueError, match="a segment to run"):
        tail(1, chain=())
    with pytest.raises(ValueError, match="a segment to run"):
        tail(1, fallbacks=((),))
    with pytest.raises(ValueError, match="time to run it in"):
        tail(1, deadline_s=0.0)


def test_a_text_needs_tokens_and_time() -> None:
    with pytest.raises(ValueError, match="a token to begin with"):
        text(1, [])
    with pytest.raises(ValueError, match="one to end with"):
        text(1, [1], max_tokens=0)
    with pytest.raises(ValueError, match="one to end with"):
        text(1, [1], fallback_tokens=(0,))
    with pytest.raises(ValueError, match="positive"):
        text(1, [1], ttft_s=0.0)
    with pytest.raises(ValueError, match="positive"):
        text(1, [1], tbt_s=-1.0)
    with pytest.raises(ValueError, match="positive"):
        text(1, [1], deadline_s=-1.0)


def test_limits_of_a_scheduler_are_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        SchedulerOptions(max_waiting=0)
    with pytest.raises(ValueError, match="positive"):
        SchedulerOptions(token_budget=0)
    with pytest.raises(ValueError, match="share of the cache"):
        SchedulerOptions(spare_blocks=1.0)
