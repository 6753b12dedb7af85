"""Where tensors lie in the arena."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.mcu.arena import Lifetime, plan_arena


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    spans = draw(
        st.lists(st.tuples(st.integers(1, 500), st.integers(0, 20), st.integers(0, 6)), max_size=15)
    )
    return [
        Lifetime(name=f"t{i}", size=size, first=first, last=first + length)
        for i, (size, first, length) in enumerate(spans)
    ]


@settings(deadline=None)
@given(lifetimes())
def test_what_lives_together_does_not_overlap(tensors: list[Lifetime]) -> None:
    plan = plan_arena(tensors)
    for one in tensors:
        start = plan.offsets[one.name]
        assert start % 4 == 0
        assert start + one.size <= plan.size
        for other in tensors:
            if other.name != one.name and one.meets(other):
                begin = plan.offsets[other.name]
                assert start + one.size <= begin or begin + other.size <= start


def test_a_chain_needs_two_neighbours_at_a_time() -> None:
    chain = [Lifetime(name=f"t{i}", size=100, first=i, last=i + 1) for i in range(10)]
    assert plan_arena(chain).size == 200


def test_nothing_to_place() -> None:
    assert plan_arena([]).size == 0
