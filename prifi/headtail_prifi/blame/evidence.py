"""Evidence: files that convince anybody who knows the epoch, without trusting whoever kept them.

    evidence    b"HTE1" | msgpack array [tag, field, ...]
    file        b"HTF1" | msgpack array [charter of the epoch, evidence]

A ruling without evidence (a party that fell silent) is the relay's word and has no file.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_fabric.errors import PeerError
from headtail_prifi.blame.case import read_case
from headtail_prifi.blame.claim import check_claim, read_claim
from headtail_prifi.blame.judge import (
    Charge,
    Ruling,
    judge_pair,
    judge_statement,
    read_statement,
)
from headtail_prifi.blame.messages import Case, Claim, Opening, verify_frame
from headtail_prifi.core.body import Body, Hash, Round, Signature, decode_body
from headtail_prifi.core.errors import (
    AccusationError,
    BogusCaseError,
    EvidenceError,
    FrameError,
    RecordError,
    RefutedError,
)
from headtail_prifi.core.geometry import MAX_UPSTREAM_BYTES, Geometry
from headtail_prifi.core.header import Kind, read_header
from headtail_prifi.core.seat import RELAY
from headtail_prifi.crypto.cipher import PadCipher, default_cipher
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.round.history import HistoryStatement
from headtail_prifi.setup.charter import read_epoch
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Roster

MAGIC: Final = b"HTE1"
FILE_MAGIC: Final = b"HTF1"
MAX_EVIDENCE_BYTES: Final = 16 * 1024 * 1024

_Frame = Annotated[bytes, Meta(max_length=4 * MAX_UPSTREAM_BYTES)]


class Guilt(Body, frozen=True, kw_only=True, tag=1):
    """A case and what convicts in it: one answer that fails by itself, or the two answers of a
    pair that disagree and its opened secret."""

    case: _Frame
    answers: Annotated[tuple[_Frame, ...], Meta(min_length=1, max_length=2)]
    opening: Opening | None = None


class Refuted(Body, frozen=True, kw_only=True, tag=2):
    """An accusation that the relay's signed record contradicts."""

    claim: Claim


class BogusCase(Body, frozen=True, kw_only=True, tag=3):
    """A case that the relay signed and that its own record does not support."""

    case: _Frame


class DoubleCase(Body, frozen=True, kw_only=True, tag=4):
    """Two cases of the relay with one number, or with one accusation."""

    first: _Frame
    second: _Frame


class TwoHistories(Body, frozen=True, kw_only=True, tag=5):
    """The relay's signatures of two histories that end with one round."""

    round: Round
    first_link: Hash
    first_signature: Signature
    second_link: Hash
    second_signature: Signature

    @classmethod
    def of(cls, first: HistoryStatement, second: HistoryStatement) -> "TwoHistories":
        return cls(
            round=first.round,
            first_link=first.link,
            first_signature=first.signature,
            second_link=second.link,
            second_signature=second.signature,
        )


class File(Body, frozen=True, kw_only=True):
    """Evidence with the charter of its epoch, so that a roster is enough to judge it."""

    charter: Annotated[
        tuple[Annotated[bytes, Meta(max_length=256 * 1024)], ...], Meta(max_length=64)
    ]
    evidence: Annotated[bytes, Meta(max_length=MAX_EVIDENCE_BYTES)]


Evidence = Guilt | Refuted | BogusCase | DoubleCase | TwoHistories

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Evidence]] = msgspec.msgpack.Decoder(Evidence)
_file_decoder: Final = msgspec.msgpack.Decoder(File)


def encode_evidence(evidence: Evidence) -> bytes:
    """The bytes of the file."""
    return MAGIC + _encoder.encode(evidence)


def verify_evidence(data: bytes, epoch: Epoch, *, cipher: PadCipher | None = None) -> Ruling:
    """Who is to blame by this file, and for what.

    Raises EvidenceError when it proves nothing, whatever the bytes.
    """
    evidence = _decode(data)
    try:
        geometry = Geometry.decode(epoch.parameters, clients=epoch.client_count)
        match evidence:
            case Guilt():
                return _guilt(evidence, epoch, geometry, cipher or default_cipher())
            case Refuted():
                return _refuted(evidence, epoch, geometry)
            case BogusCase():
                return _bogus(evidence, epoch, geometry)
            case DoubleCase():
                return _double(evidence, epoch)
            case TwoHistories():
                return _two_histories(evidence, epoch)
    except (SignatureError, FrameError, RecordError, AccusationError) as error:
        raise EvidenceError(f"the evidence does not hold: {error.message}") from None
    except BogusCaseError as error:
        raise EvidenceError(f"the case itself is bogus: {error.message}") from None


def write_file(evidence: bytes, epoch: Epoch) -> bytes:
    """A file for somebody who has the roster and nothing else of the epoch."""
    return FILE_MAGIC + _encoder.encode(File(charter=epoch.charter, evidence=evidence))


def verify_file(data: bytes, roster: Roster, *, cipher: PadCipher | None = None) -> Ruling:
    """Who is to blame by this file. Raises EvidenceError when it proves nothing."""
    if not data.startswith(FILE_MAGIC) or len(data) > 2 * MAX_EVIDENCE_BYTES:
        raise EvidenceError("not a file of evidence")
    try:
        file = _file_decoder.decode(data[len(FILE_MAGIC) :])
        epoch = read_epoch(roster, file.charter)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"a malformed file: {error}") from None
    except PeerError as error:
        raise EvidenceError(f"not an epoch of this roster: {error.message}") from None
    return verify_evidence(file.evidence, epoch, cipher=cipher)


def _decode(data: bytes) -> Evidence:
    if not data.startswith(MAGIC) or len(data) > MAX_EVIDENCE_BYTES:
        raise EvidenceError("not a file of evidence")
    try:
        return _decoder.decode(data[len(MAGIC) :])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"malformed evidence: {error}") from None


def _guilt(evidence: Guilt, epoch: Epoch, geometry: Geometry, cipher: PadCipher) -> Ruling:
    case = read_case(evidence.case, epoch=epoch, geometry=geometry)
    answers = [read_statement(frame, case, epoch) for frame in evidence.answers]
    if evidence.opening is None:
        ruling = judge_statement(case, answers[0])
        if ruling is None or len(answers) != 1:
            raise EvidenceError("the answer is consistent: it convicts nobody")
        return ruling
    if len(answers) != 2:
        raise EvidenceError("an opened secret without the two answers that it decides between")
    return judge_pair(
        case,
        client=answers[0],
        guard=answers[1],
        opening=evidence.opening,
        epoch=epoch,
        cipher=cipher,
    )


def _refuted(evidence: Refuted, epoch: Epoch, geometry: Geometry) -> Ruling:
    claim = read_claim(evidence.claim, epoch=epoch, geometry=geometry)
    try:
        check_claim(claim, epoch)
    except RefutedError:
        slot = claim.accusation.slot
        return Ruling(culprit=None, charge=Charge.FALSE_ACCUSATION, slot=slot)
    raise EvidenceError("the accusation is not refuted")


def _bogus(evidence: BogusCase, epoch: Epoch, geometry: Geometry) -> Ruling:
    try:
        read_case(evidence.case, epoch=epoch, geometry=geometry)
    except BogusCaseError:
        return Ruling(culprit=RELAY, charge=Charge.BOGUS_CASE)
    raise EvidenceError("the case is sound")


def _double(evidence: DoubleCase, epoch: Epoch) -> Ruling:
    cases = []
    for frame in (evidence.first, evidence.second):
        data = verify_frame(
            frame, seat=RELAY, epoch_id=epoch.epoch_id, verify_key=epoch.roster.relay.verify_key
        )
        if read_header(frame).kind is not Kind.CASE:
            raise EvidenceError("two frames that are not both cases")
        cases.append(decode_body(Case, data))
    first, second = cases
    same_number = first.number == second.number
    same_accusation = first.claim.accusation == second.claim.accusation
    if evidence.first == evidence.second or not (same_number or same_accusation):
        raise EvidenceError("two cases that have nothing to do with one another")
    return Ruling(culprit=RELAY, charge=Charge.DOUBLE_CASE)


def _two_histories(evidence: TwoHistories, epoch: Epoch) -> Ruling:
    if evidence.first_link == evidence.second_link:
        raise EvidenceError("one history, twice")
    for link, signature in (
        (evidence.first_link, evidence.first_signature),
        (evidence.second_link, evidence.second_signature),
    ):
        HistoryStatement(
            epoch_id=epoch.epoch_id, round=evidence.round, link=link, signature=signature
        ).verify(epoch.roster.relay.verify_key)
    return Ruling(culprit=RELAY, charge=Charge.EQUIVOCATED)
