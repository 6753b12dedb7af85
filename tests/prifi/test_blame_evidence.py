"""Evidence and cases, bent in every way: what no longer holds convicts nobody."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from headtail_prifi.blame.accusation import Accusation, accuse, record_of
from headtail_prifi.blame.case import OpenCase, pack_bits, read_case, unpack_bits
from headtail_prifi.blame.evidence import (
    MAGIC,
    BogusCase,
    DoubleCase,
    Evidence,
    Guilt,
    Refuted,
    TwoHistories,
    encode_evidence,
    verify_evidence,
    verify_file,
    write_file,
)
from headtail_prifi.blame.judge import Charge, Ruling, read_statement
from headtail_prifi.blame.messages import Case, Claim, Conflict, Opening, Reveal, sign_frame
from headtail_prifi.core.body import decode_body, encode_body, frame_of, split_signed
from headtail_prifi.core.errors import (
    AccusationError,
    BogusCaseError,
    EvidenceError,
    FrameError,
    UnexpectedFrameError,
)
from headtail_prifi.core.events import CaseOpened, VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import HEADER_BYTES, Header, Kind, read_header
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.misbehaviour import LyingWitness, disrupt, witness_as
from headtail_prifi.round.history import HistoryStatement, next_link
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

GEOMETRY = Geometry(clients=3, cell_bytes=128, window=2)
BAD, VICTIM = 2, 0


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(3, 2, GEOMETRY)


def trial(scene: Scene, lies: bool) -> Swarm:
    """A burst in every third turn of the victim, up to a while after the verdict."""
    swarm = Swarm(
        scene,
        links=Links(delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.03),
    )
    swarm.sightings = []
    turns: list[int] = []
    slot = swarm.slot(VICTIM)

    def flips(round_: int, owners: tuple[int, ...]) -> range:
        turns.extend([round_] if slot in owners else [])
        return range(64) if slot in owners and len(turns) % 3 == 1 else range(0)

    disrupt(swarm.clients[BAD], flips)
    if lies:
        witness_as(swarm.clients[BAD], LyingWitness)
    for number in range(10):
        swarm.send(VICTIM, b"%d" % number)
    swarm.start()
    assert swarm.run(lambda: bool(swarm.events(VerdictReached, RELAY)), 20.0)
    swarm.run_until(swarm.now + 0.05)
    return swarm


@pytest.fixture(scope="module")
def plain(scene: Scene) -> Swarm:
    return trial(scene, lies=False)


@pytest.fixture(scope="module")
def lying(scene: Scene) -> Swarm:
    return trial(scene, lies=True)


def frames(swarm: Swarm, kind: Kind) -> list[bytes]:
    return [each.frame for each in swarm.sightings or [] if each.frame[0] == kind]


def case_of(swarm: Swarm) -> OpenCase:
    epoch = swarm.scene.finished.epoch
    return read_case(frames(swarm, Kind.CASE)[0], epoch=epoch, geometry=GEOMETRY)


def answer(swarm: Swarm, seat: Seat) -> bytes:
    case = case_of(swarm)
    epoch = swarm.scene.finished.epoch
    return next(
        frame
        for frame in frames(swarm, Kind.REVEAL)
        if read_statement(frame, case, epoch).seat == seat
    )


def guilt(swarm: Swarm) -> Guilt:
    answers: tuple[bytes, ...] = (answer(swarm, client_seat(BAD)),)
    openings = frames(swarm, Kind.OPENING)
    opening = None
    if openings:
        opening = decode_body(Opening, openings[0][HEADER_BYTES:])
        answers += (answer(swarm, guard_seat(opening.guard)),)
    return Guilt(case=case_of(swarm).frame, answers=answers, opening=opening)


def convicts(swarm: Swarm, evidence: Evidence) -> Ruling:
    return verify_evidence(encode_evidence(evidence), swarm.scene.finished.epoch)


def rejected(swarm: Swarm, evidence: Evidence) -> None:
    with pytest.raises(EvidenceError):
        convicts(swarm, evidence)


def test_a_disruptor_is_convicted_by_its_own_answer(plain: Swarm) -> None:
    assert convicts(plain, guilt(plain)) == Ruling(
        culprit=client_seat(BAD), charge=Charge.DISRUPTED
    )


def test_a_liar_is_convicted_by_the_opened_secret(lying: Swarm) -> None:
    assert convicts(lying, guilt(lying)) == Ruling(culprit=client_seat(BAD), charge=Charge.LIED)


def test_a_file_convicts_before_anybody_who_has_the_roster(plain: Swarm, lying: Swarm) -> None:
    for swarm, charge in ((plain, Charge.DISRUPTED), (lying, Charge.LIED)):
        epoch = swarm.scene.finished.epoch
        (verdict,) = swarm.events(VerdictReached, RELAY)
        file = write_file(verdict.evidence, epoch)
        assert verify_file(file, epoch.roster) == Ruling(culprit=client_seat(BAD), charge=charge)
        for broken in (b"", file[:-1], file[1:], file[:5] + b"\x00" + file[6:]):
            with pytest.raises(EvidenceError):
                verify_file(broken, epoch.roster)


def test_an_honest_answer_convicts_nobody(plain: Swarm, lying: Swarm) -> None:
    for swarm in (plain, lying):
        for seat in (client_seat(VICTIM), client_seat(1), guard_seat(0), guard_seat(1)):
            rejected(swarm, replace(guilt(swarm), answers=(answer(swarm, seat),), opening=None))


def test_answers_of_honest_pairs_open_nothing(lying: Swarm) -> None:
    evidence = guilt(lying)
    guard = answer(lying, guard_seat(0))
    for answers in (
        (answer(lying, client_seat(1)), guard),
        (guard, answer(lying, client_seat(BAD))),
        (guard, guard),
        (guard,),
        (evidence.answers[0],),
    ):
        rejected(lying, replace(evidence, answers=answers))
    rejected(lying, replace(evidence, opening=None))


def test_an_opened_secret_must_be_the_pairs(lying: Swarm) -> None:
    evidence = guilt(lying)
    opening = evidence.opening
    assert opening is not None
    group = lying.scene.finished.epoch.group
    for change in (
        {"shared": group.mul_base(5).encode()},
        {"shared": bytes(33)},
        {"proof": bytes(64)},
        {"case": bytes(32)},
        {"client": 1},
        {"client": 900},
        {"guard": 1 - opening.guard},
        {"role": Role.CLIENT if opening.role is Role.GUARD else Role.GUARD},
    ):
        rejected(lying, replace(evidence, opening=replace(opening, **change)))


def test_a_changed_answer_is_not_its_authors(plain: Swarm) -> None:
    evidence = guilt(plain)
    frame = evidence.answers[0]
    for at in range(HEADER_BYTES, len(frame), 7):
        bent = frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]
        rejected(plain, replace(evidence, answers=(bent,)))
    rejected(plain, replace(evidence, answers=(frames(plain, Kind.UP)[0],)))


def test_an_answer_by_another_hand_does_not_count(plain: Swarm) -> None:
    case, epoch = case_of(plain), plain.scene.finished.epoch
    reveal = Reveal(case=case.digest, role=Role.CLIENT, bits=pack_bits([1, 1]))
    header = Header(Kind.REVEAL, 0, 1, case.round, read_header(case.frame).epoch, 0)
    forged = sign_frame(
        header,
        reveal,
        seat=client_seat(1),
        epoch_id=epoch.epoch_id,
        key=plain.scene.enrolment.clients[BAD],
    )
    with pytest.raises(SignatureError):
        read_statement(forged, case, epoch)
    for role, bits in ((Role.RELAY, b"\x00"), (Role.CLIENT, b"\x01"), (Role.CLIENT, b"")):
        odd = replace(reveal, role=role, bits=bits)
        frame = sign_frame(
            header,
            odd,
            seat=client_seat(1),
            epoch_id=epoch.epoch_id,
            key=plain.scene.enrolment.clients[1],
        )
        with pytest.raises(FrameError):
            read_statement(frame, case, epoch)


# -- cases that no honest relay opens ---------------------------------------------------------


def resigned(swarm: Swarm, change: Callable[[Case], Case]) -> bytes:
    """The relay signs a changed case."""
    frame = frames(swarm, Kind.CASE)[0]
    signed, _ = split_signed(frame)
    return sign_frame(
        read_header(frame),
        change(decode_body(Case, signed[HEADER_BYTES:])),
        seat=RELAY,
        epoch_id=swarm.scene.finished.epoch.epoch_id,
        key=swarm.scene.enrolment.relay,
    )


def change_claim(**fields: object) -> Callable[[Case], Case]:
    return lambda case: replace(case, claim=replace(case.claim, **fields))


def change_accusation(**fields: object) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        accusation = replace(case.claim.accusation, **fields)
        return replace(case, claim=replace(case.claim, accusation=accusation))

    return change


BOGUS: dict[str, Callable[[Case], Case]] = {
    "another bit": change_accusation(position=7),
    "another slot": change_accusation(slot=1),
    "no such slot": change_accusation(slot=900),
    "another round": change_accusation(round=0),
    "another version": change_accusation(version=1),
    "another record": change_accusation(record=bytes(32)),
    "no proof": change_accusation(proof=bytes(64)),
    "another history": change_claim(opened_before=bytes(32)),
    "nothing opened": change_claim(opened=b""),
    "nothing shown": change_claim(shown=b"x" * 100),
    "votes that add up to 0": lambda case: replace(case, votes=bytes(len(case.votes))),
    "too many votes": lambda case: replace(case, votes=case.votes + b"\0"),
    "a receipt less": lambda case: replace(case, receipts=case.receipts[:-1]),
    "a receipt of another": lambda case: replace(
        case, receipts=(case.receipts[1], *case.receipts[1:])
    ),
}


@pytest.mark.parametrize("name", BOGUS)
def test_a_bogus_case_convicts_the_relay_and_reveals_nothing(
    scene: Scene, plain: Swarm, name: str
) -> None:
    frame = resigned(plain, BOGUS[name])
    epoch = scene.finished.epoch
    with pytest.raises(BogusCaseError):
        read_case(frame, epoch=epoch, geometry=GEOMETRY)
    assert convicts(plain, BogusCase(case=frame)) == Ruling(culprit=RELAY, charge=Charge.BOGUS_CASE)
    rejected(plain, replace(guilt(plain), case=frame))
    witness = Swarm(scene).guards[0]
    witness.receive(frame, 0.0)
    assert witness.to_send(0.0) == []
    event = witness.next_event()
    assert isinstance(event, VerdictReached)
    assert event.culprit == RELAY


def test_a_sound_case_does_not_convict_the_relay(plain: Swarm) -> None:
    rejected(plain, BogusCase(case=case_of(plain).frame))
    rejected(plain, BogusCase(case=frames(plain, Kind.UP)[0]))


def test_a_case_by_another_hand_is_no_case(scene: Scene, plain: Swarm) -> None:
    frame = case_of(plain).frame
    for bent in (frame[:-1] + bytes([frame[-1] ^ 1]), frame[:40] + b"\0" + frame[41:]):
        with pytest.raises((SignatureError, FrameError)):
            Swarm(scene).guards[0].receive(bent, 0.0)
    other_kind = bytearray(frame)
    other_kind[0] = Kind.VERDICT
    with pytest.raises(SignatureError):
        read_case(bytes(other_kind), epoch=scene.finished.epoch, geometry=GEOMETRY)


def test_a_case_under_an_unknown_membership_is_not_answered(scene: Scene, plain: Swarm) -> None:
    """Version 0 is not remembered any more after two changes; a new one may be announced yet."""
    guard = Swarm(scene).guards[0]
    guard._segments._segments.clear()
    guard.receive(case_of(plain).frame, 0.0)
    assert guard.to_send(0.0) == []


def test_a_client_does_not_answer_for_a_history_that_it_lacks(scene: Scene, plain: Swarm) -> None:
    client = Swarm(scene).clients[1]
    with pytest.raises(FrameError, match="nothing is left"):
        client.receive(case_of(plain).frame, 0.0)
    assert client.to_send(0.0) == []
    assert client.next_event() is None


def test_two_cases_of_one_accusation_or_number(plain: Swarm) -> None:
    first = case_of(plain).frame
    second = resigned(plain, lambda case: replace(case, number=case.number + 1))
    assert convicts(plain, DoubleCase(first=first, second=second)).charge is Charge.DOUBLE_CASE
    rejected(plain, DoubleCase(first=first, second=first))
    unrelated = resigned(
        plain,
        lambda case: replace(change_accusation(position=9)(case), number=case.number + 1),
    )
    rejected(plain, DoubleCase(first=first, second=unrelated))
    forged = sign_frame(
        read_header(frames(plain, Kind.VOUCH)[0]),
        decode_body(Case, split_signed(second)[0][HEADER_BYTES:]),
        seat=RELAY,
        epoch_id=plain.scene.finished.epoch.epoch_id,
        key=plain.scene.enrolment.relay,
    )
    rejected(plain, DoubleCase(first=first, second=forged))


def test_an_answered_case_is_answered_again_in_the_same_words(scene: Scene, plain: Swarm) -> None:
    guard = Swarm(scene).guards[0]
    frame = case_of(plain).frame
    guard.receive(frame, 0.0)
    first = guard.to_send(0.0)
    guard.receive(frame, 0.0)
    assert guard.to_send(0.0) == first
    assert isinstance(guard.next_event(), CaseOpened)
    assert guard.next_event() is None


# -- secrets are not opened without a contradiction -------------------------------------------


def conflict_frame(plain: Swarm, client: int, guard: int, reveal: bytes) -> bytes:
    header = replace(read_header(case_of(plain).frame), kind=Kind.CONFLICT)
    return frame_of(header, Conflict(client=client, guard=guard, reveal=reveal))


def test_a_guard_opens_nothing_to_a_client_that_agrees(scene: Scene, plain: Swarm) -> None:
    guard = Swarm(scene).guards[0]
    honest = answer(plain, client_seat(1))
    with pytest.raises(UnexpectedFrameError):
        guard.receive(conflict_frame(plain, 1, 0, honest), 0.0)
    guard.receive(case_of(plain).frame, 0.0)
    guard.to_send(0.0)
    for client, index, reveal in ((1, 0, honest), (0, 0, honest), (1, 1, honest)):
        with pytest.raises(UnexpectedFrameError):
            guard.receive(conflict_frame(plain, client, index, reveal), 0.0)
    with pytest.raises((FrameError, SignatureError)):
        guard.receive(conflict_frame(plain, 1, 0, honest[:-1] + b"\0"), 0.0)
    assert guard.to_send(0.0) == []


def test_an_opening_is_made_once(scene: Scene, lying: Swarm) -> None:
    guard = Swarm(scene).guards
    opening = guilt(lying).opening
    assert opening is not None
    core = guard[opening.guard]
    core.receive(case_of(lying).frame, 0.0)
    core.to_send(0.0)
    frame = conflict_frame(lying, BAD, opening.guard, answer(lying, client_seat(BAD)))
    core.receive(frame, 0.0)
    first = core.to_send(0.0)
    core.receive(frame, 0.0)
    assert core.to_send(0.0) == first
    assert len(first) == 1


def test_a_verdict_that_nothing_supports_is_refused(scene: Scene, plain: Swarm) -> None:
    verdict = bytearray(frames(plain, Kind.VERDICT)[0])
    verdict[-10] ^= 1
    client = Swarm(scene).clients[1]
    with pytest.raises(FrameError):
        client.receive(bytes(verdict), 0.0)
    assert client.next_event() is None


# -- accusations ------------------------------------------------------------------------------


def claim_of(plain: Swarm) -> Claim:
    signed, _ = split_signed(case_of(plain).frame)
    return decode_body(Case, signed[HEADER_BYTES:]).claim


def accused(plain: Swarm, position: int, claim: Claim | None = None) -> Refuted:
    """The victim's owner accuses a position, truly signed, beside the given frames."""
    claim = claim or claim_of(plain)
    secrets = plain.scene.finished.clients[VICTIM]
    accusation = accuse(
        plain.scene.finished.epoch,
        version=0,
        round_=claim.accusation.round,
        position=position,
        slot=secrets.slot,
        record=record_of(*links(claim)),
        secret=secrets.pseudonym,
        entropy=SeededEntropy(b"a"),
    )
    return Refuted(claim=replace(claim, accusation=accusation))


def links(claim: Claim) -> tuple[bytes, bytes]:
    opened, _ = split_signed(claim.opened)
    shown, _ = split_signed(claim.shown)
    return next_link(claim.opened_before, opened), next_link(claim.shown_before, shown)


def test_false_accusations_convict_the_slot(plain: Swarm) -> None:
    got = case_of(plain).claim.accusation
    slot = plain.slot(VICTIM)
    assert got.slot == slot
    zero = next(
        position
        for position in range(1024)
        if convicts_or_not(plain, accused(plain, position)) is not None
    )
    not_its_own = GEOMETRY.reservation_bit((slot + 1) % 3)
    beyond = 8 * GEOMETRY.upstream_bytes
    for position in (zero, not_its_own, beyond):
        ruling = convicts(plain, accused(plain, position))
        assert ruling == Ruling(culprit=None, charge=Charge.FALSE_ACCUSATION, slot=slot)


def convicts_or_not(plain: Swarm, evidence: Refuted) -> Ruling | None:
    try:
        return convicts(plain, evidence)
    except EvidenceError:
        return None


def test_true_accusations_do_not_convict_the_slot(plain: Swarm) -> None:
    rejected(plain, Refuted(claim=claim_of(plain)))
    rejected(plain, accused(plain, claim_of(plain).accusation.position))


def test_frames_that_do_not_show_the_bit_refute_nothing(plain: Swarm) -> None:
    """Another frame of the relay, in which the cell is not shown, is no refutation."""
    claim = claim_of(plain)
    mute = replace(claim, shown=claim.opened, shown_before=claim.opened_before)
    rejected(plain, accused(plain, claim.accusation.position, mute))
    reservation = GEOMETRY.reservation_bit(plain.slot(VICTIM))
    rejected(plain, accused(plain, reservation, mute))


def test_an_accusation_is_its_owners_only(plain: Swarm) -> None:
    accusation = claim_of(plain).accusation
    epoch = plain.scene.finished.epoch
    accusation.verify(epoch)
    assert isinstance(accusation, Accusation)
    with pytest.raises(AccusationError):
        replace(accusation, slot=(accusation.slot + 1) % 3).verify(epoch)


# -- two histories ----------------------------------------------------------------------------


def test_two_histories_need_two_signatures_of_the_relay(plain: Swarm) -> None:
    epoch_id, key = plain.scene.finished.epoch.epoch_id, plain.scene.enrolment.relay
    one = HistoryStatement.signed(epoch_id=epoch_id, round=3, link=b"1" * 32, key=key)
    two = HistoryStatement.signed(epoch_id=epoch_id, round=3, link=b"2" * 32, key=key)
    other = HistoryStatement.signed(
        epoch_id=epoch_id, round=3, link=b"3" * 32, key=SigningKey(b"x" * 32)
    )
    assert convicts(plain, TwoHistories.of(one, two)).charge is Charge.EQUIVOCATED
    rejected(plain, TwoHistories.of(one, one))
    rejected(plain, TwoHistories.of(one, other))


def test_bits_are_packed_exactly() -> None:
    assert unpack_bits(pack_bits([1, 0, 1]), 3) == [1, 0, 1]
    for packed, count in ((b"\xff", 3), (b"", 1), (b"\0\0", 8)):
        with pytest.raises(FrameError):
            unpack_bits(packed, count)
    assert encode_evidence(BogusCase(case=b"x")).startswith(MAGIC)
    assert encode_body(Reveal(case=bytes(32), role=Role.CLIENT, bits=b""))
