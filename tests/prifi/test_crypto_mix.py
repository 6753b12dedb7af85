"""The accusation shuffle: messages come out whole and mixed, and cheating is found."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import ProofError
from headtail_prifi.crypto.group import Group, Point, group_named
from headtail_prifi.crypto.mix import (
    Mixed,
    Pair,
    Row,
    capacity_bytes,
    mix,
    open_rows,
    prove_mix,
    submit,
    unmask,
    verify_mix,
    verify_submission,
    verify_unmask,
)

BLOCKS = 2
CONTEXT = b"epoch 1, shuffle 1, guard 0"


class Case:
    """Three rows under the joint key of two guards, and the first guard's step."""

    def __init__(self, group: Group, messages: tuple[bytes, ...] = (b"one", b"", b"three")) -> None:
        self.group = group
        self.entropy = SeededEntropy(b"mix")
        self.secrets = [group.random_scalar(self.entropy) for _ in range(2)]
        self.publics = [group.mul_base(secret) for secret in self.secrets]
        self.key = group.sum(self.publics)
        self.messages = messages
        self.rows = [self.submit(message)[0] for message in messages]
        self.mixed = mix(group, self.key, self.rows, self.entropy)
        self.proof = self.prove(self.mixed)

    def submit(self, message: bytes, context: bytes = b"client") -> tuple[Row, bytes]:
        return submit(self.group, self.key, message, BLOCKS, context=context, entropy=self.entropy)

    def prove(self, mixed: Mixed) -> bytes:
        return prove_mix(
            self.group, self.key, self.rows, mixed, context=CONTEXT, entropy=self.entropy
        )

    def verify(self, rows: tuple[Row, ...], proof: bytes, context: bytes = CONTEXT) -> None:
        verify_mix(self.group, self.key, self.rows, rows, proof, context=context)

    def refused(self, rows: tuple[Row, ...]) -> None:
        with pytest.raises(ProofError):
            self.verify(rows, self.proof)
        with pytest.raises(ProofError):
            self.verify(rows, self.prove(replace(self.mixed, rows=rows)))

    def shares(self, rows: tuple[Row, ...]) -> list[tuple[Point, ...]]:
        return [
            unmask(self.group, secret, rows, context=b"u", entropy=self.entropy)[0]
            for secret in self.secrets
        ]


@pytest.fixture(params=["secp256k1", "p256"])
def case(request: pytest.FixtureRequest) -> Case:
    return Case(group_named(request.param))


def test_all_messages_come_out_after_two_guards(case: Case) -> None:
    case.verify(case.mixed.rows, case.proof)
    group, first = case.group, case.mixed.rows
    second = mix(group, case.key, first, case.entropy)
    proof = prove_mix(group, case.key, first, second, context=b"2", entropy=case.entropy)
    verify_mix(group, case.key, first, second.rows, proof, context=b"2")
    shares = []
    for secret, public in zip(case.secrets, case.publics, strict=True):
        parts, proof = unmask(group, secret, second.rows, context=b"u", entropy=case.entropy)
        verify_unmask(group, public, second.rows, parts, proof, context=b"u")
        shares.append(parts)
    opened = open_rows(group, second.rows, shares)
    assert sorted(message or b"" for message in opened) == sorted(case.messages)
    order = [case.mixed.order[source] for source in second.order]
    assert list(opened) == [case.messages[source] for source in order]


def test_no_point_survives_a_mix(case: Case) -> None:
    before = {point for row in case.rows for pair in row for point in pair}
    after = {point for row in case.mixed.rows for pair in row for point in pair}
    assert len(after) == 2 * BLOCKS * 3
    assert not before & after


def test_one_guards_share_opens_nothing(case: Case) -> None:
    opened = open_rows(case.group, case.mixed.rows, case.shares(case.mixed.rows)[:1])
    assert not set(opened) & set(case.messages)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.binary(max_size=capacity_bytes(BLOCKS)), min_size=2, max_size=4))
def test_any_messages_that_fit_come_out(messages: list[bytes]) -> None:
    case = Case(group_named("secp256k1"), tuple(messages))
    opened = open_rows(case.group, case.mixed.rows, case.shares(case.mixed.rows))
    assert list(opened) == [messages[source] for source in case.mixed.order]


def test_rows_of_short_and_long_messages_look_alike(case: Case) -> None:
    longest = case.submit(b"x" * capacity_bytes(BLOCKS))
    shortest = case.submit(b"")
    assert len(longest[0]) == len(shortest[0]) == BLOCKS
    assert len(longest[1]) == len(shortest[1])
    with pytest.raises(ValueError, match="59 bytes in 2 blocks"):
        case.submit(b"x" * 59)


def test_a_submission_is_bound_to_its_context_and_row(case: Case) -> None:
    row, proof = case.submit(b"accusation", context=b"client 1")
    verify_submission(case.group, row, proof, context=b"client 1")
    with pytest.raises(ProofError):
        verify_submission(case.group, row, proof, context=b"client 2")
    shifted = (Pair(row[0].ephemeral, case.group.add(row[0].masked, case.group.base)), *row[1:])
    with pytest.raises(ProofError):
        verify_submission(case.group, shifted, proof, context=b"client 1")


def test_a_copied_row_needs_its_secrets(case: Case) -> None:
    """Re-encrypting someone's row gives a fresh one of the same message, but no proof."""
    group = case.group
    row, proof = case.submit(b"accusation", context=b"client 1")
    copied = tuple(
        Pair(group.add(pair.ephemeral, group.base), group.add(pair.masked, case.key))
        for pair in row
    )
    with pytest.raises(ProofError):
        verify_submission(group, copied, proof, context=b"client 2")


def test_changed_messages_are_refused(case: Case) -> None:
    group, rows = case.group, case.mixed.rows
    pair = rows[0][1]
    for wrong in (
        Pair(pair.ephemeral, group.add(pair.masked, group.base)),
        Pair(group.add(pair.ephemeral, group.base), pair.masked),
        Pair(group.add(pair.ephemeral, group.base), group.add(pair.masked, group.base)),
        Pair(pair.masked, pair.ephemeral),
    ):
        case.refused(((rows[0][0], wrong), *rows[1:]))


def test_duplicated_dropped_and_exchanged_rows_are_refused(case: Case) -> None:
    rows = case.mixed.rows
    case.refused((rows[0], rows[0], rows[2]))
    case.refused((rows[1], rows[0], rows[2]))
    for wrong in (rows[:2], (*rows, rows[0])):
        with pytest.raises(ProofError, match="3 rows became"):
            case.verify(wrong, case.proof)


def test_blocks_exchanged_between_rows_are_refused(case: Case) -> None:
    rows = case.mixed.rows
    case.refused(((rows[0][0], rows[1][1]), (rows[1][0], rows[0][1]), rows[2]))


def test_rows_of_different_widths_are_refused(case: Case) -> None:
    narrow = (case.mixed.rows[0][:1], *case.mixed.rows[1:])
    with pytest.raises(ProofError, match="width"):
        case.verify(narrow, case.proof)
    with pytest.raises(ValueError, match="hide"):
        mix(case.group, case.key, [case.rows[0], case.rows[1][:1]], case.entropy)
    with pytest.raises(ValueError, match="hide"):
        mix(case.group, case.key, case.rows[:1], case.entropy)


def test_a_proof_of_another_context_mix_or_size_is_refused(case: Case) -> None:
    again = mix(case.group, case.key, case.rows, case.entropy)
    with pytest.raises(ProofError):
        case.verify(again.rows, case.proof)
    with pytest.raises(ProofError):
        case.verify(case.mixed.rows, case.proof, context=b"epoch 2")
    for wrong in (case.proof[:-1], case.proof + b"\0", b"", case.proof[:-32] + b"\xff" * 32):
        with pytest.raises(ProofError):
            case.verify(case.mixed.rows, wrong)


def test_every_scalar_of_the_proof_counts(case: Case) -> None:
    points = 33 * (3 + 4 + 2 * BLOCKS)
    for at in range(points, len(case.proof), 32):
        scalar = case.group.decode_scalar(case.proof[at : at + 32]) + 1
        damaged = case.proof[:at] + case.group.encode_scalar(scalar) + case.proof[at + 32 :]
        with pytest.raises(ProofError):
            case.verify(case.mixed.rows, damaged)


def test_a_wrong_share_is_found(case: Case) -> None:
    group, rows = case.group, case.mixed.rows
    shares, proof = unmask(group, case.secrets[0], rows, context=b"u", entropy=case.entropy)
    verify_unmask(group, case.publics[0], rows, shares, proof, context=b"u")
    exchanged = (shares[1], shares[0], *shares[2:])
    changed = (group.add(shares[0], group.base), *shares[1:])
    for wrong in (exchanged, changed):
        with pytest.raises(ProofError):
            verify_unmask(group, case.publics[0], rows, wrong, proof, context=b"u")
    with pytest.raises(ProofError, match="5 shares for 6 blocks"):
        verify_unmask(group, case.publics[0], rows, shares[:-1], proof, context=b"u")
    with pytest.raises(ProofError):
        verify_unmask(group, case.publics[1], rows, shares, proof, context=b"u")
    with pytest.raises(ProofError):
        verify_unmask(group, case.publics[0], rows, shares, proof, context=b"v")


def test_a_row_of_garbage_costs_only_itself(case: Case) -> None:
    group = case.group
    garbage = tuple(Pair(group.mul_base(3), group.mul_base(4)) for _ in range(BLOCKS))
    identity = tuple(Pair(group.base, group.mul_base(sum(case.secrets))) for _ in range(BLOCKS))
    rows = (*case.mixed.rows, garbage, identity)
    opened = open_rows(group, rows, case.shares(rows))
    assert opened[3:] == (None, None)
    assert sorted(message or b"" for message in opened[:3]) == sorted(case.messages)


def test_what_made_a_mix_is_not_shown(case: Case) -> None:
    assert "order" not in repr(case.mixed)
    assert "blinds" not in repr(case.mixed)
