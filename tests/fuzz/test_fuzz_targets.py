"""Every target, briefly. The long run is `python -m fuzzing TARGET --inputs 1000000`."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzzing.campaign import Campaign
from fuzzing.framing import join, split
from fuzzing.mutation import INTERESTING, Edit, Engine, Operation, apply
from fuzzing.target import Target
from fuzzing.targets import TARGETS

NAMES = sorted(TARGETS)
EDITS = st.lists(
    st.builds(
        Edit,
        operation=st.sampled_from(Operation),
        at=st.integers(0, 4096),
        size=st.integers(0, 64),
        data=st.sampled_from(INTERESTING) | st.binary(max_size=16),
    ),
    max_size=5,
)


def attempt(target: Target, data: bytes) -> None:
    for parser in target.parsers:
        try:
            parser(data)
        except target.errors:
            continue


@pytest.mark.parametrize("name", NAMES)
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_only_typed_errors_leave_the_parser(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    seed = data.draw(st.sampled_from(target.corpus()))
    changed = apply(data.draw(EDITS), seed)
    attempt(target, target.mend(changed) if data.draw(st.booleans()) else changed)


@pytest.mark.parametrize("name", NAMES)
def test_a_short_campaign_finds_nothing(name: str) -> None:
    tally = Campaign(TARGETS[name], seed=7).run(150)
    assert [crash.error for crash in tally.crashes] == []
    assert tally.inputs == 150


# Frames of a DC-net are valid at their time only.
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"prifi-parties"}))
def test_the_corpus_is_valid_and_mending_keeps_it_so(name: str) -> None:
    target = TARGETS[name]
    for seed in target.corpus():
        assert target.mend(seed) == seed
        taken = 0
        for parser in target.parsers:
            try:
                parser(seed)
            except target.errors:
                continue
            taken += 1
        assert taken > 0


def test_a_bug_is_found_and_told_once() -> None:
    def parse(data: bytes) -> None:
        if b"\x7f" in data:
            raise KeyError(data[0])

    buggy = Target(name="buggy", what="", parsers=(parse,), corpus=lambda: [b"\0" * 20])
    tally = Campaign(buggy, seed=1).run(2000)
    (crash,) = tally.crashes
    assert crash.error.startswith("KeyError at test_fuzz_targets.py:")
    assert b"\x7f" in crash.data


def test_what_ends_at_a_new_place_is_built_upon() -> None:
    def parse(data: bytes) -> None:
        if data[:1] != b"\x80":
            raise ValueError
        if data[1:2] != b"\x10":
            raise ValueError
        if data[2:3] != b"\x7f":
            raise ValueError
        raise KeyError

    target = Target(
        name="deep", what="", parsers=(parse,), corpus=lambda: [b"0000"], errors=(ValueError,)
    )
    tally = Campaign(target, seed=3).run(20_000)
    assert len(tally.crashes) == 1


def test_the_same_seed_gives_the_same_inputs() -> None:
    corpus = [b"one corpus", b"another"]
    first, second = Engine(5), Engine(5)
    assert [first.input(corpus) for _ in range(50)] == [second.input(corpus) for _ in range(50)]


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_frames_join_and_split(frames: list[bytes]) -> None:
    assert split(join(frames)) == frames


@given(st.binary(max_size=100))
def test_any_bytes_are_some_frames(data: bytes) -> None:
    assert len(split(data)) <= 20
