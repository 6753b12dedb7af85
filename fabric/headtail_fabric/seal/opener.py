"""The edge's end: opens what is sealed to its key, once each, and seals the answers."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headtail_fabric.seal import content, envelope
from headtail_fabric.seal.cipher import SealCipher, best_cipher
from headtail_fabric.seal.envelope import AnswerEnvelope, RequestEnvelope, is_sealed
from headtail_fabric.seal.errors import ReplayedError, SealError, WrongSealKeyError
from headtail_fabric.seal.hpke import Context, set_up_recipient
from headtail_fabric.seal.replay import ReplayWindow
from headtail_fabric.wire import Buffer, Frames, Request, TensorInfo

_MAX_EPOCHS: Final = 4096
"""Devices' epochs that are remembered. Of one that was forgotten, old requests could be computed
again; their answers would still be for the device alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Epoch:
    context: Context
    answers: bytes = field(repr=False)
    window: ReplayWindow = field(default_factory=ReplayWindow)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnswerSealer:
    """Seals the answer to one request. Safe to use from any thread."""

    id: int
    sequence: int
    enc: bytes
    secret: bytes = field(repr=False)
    pad_bytes: int
    cipher: SealCipher = field(repr=False)
    random: Callable[[int], bytes] = field(repr=False)

    def seal(self, tensors: Sequence[TensorInfo], payloads: Frames) -> tuple[TensorInfo, Buffer]:
        """The one tensor that stands for all of `tensors`, and its payload. Raises
        TooLargeError."""
        nonce = self.random(envelope.RESPONSE_NONCE_BYTES)
        key, aead_nonce = envelope.answer_key(self.secret, self.enc, nonce)
        sealed = AnswerEnvelope(
            epoch_id=envelope.short_id(self.enc),
            sequence=self.sequence,
            nonce=nonce,
            ciphertext=self.cipher.seal(
                key,
                aead_nonce,
                content.join(tensors, payloads, pad_bytes=self.pad_bytes),
                envelope.of_answer(id=self.id, sequence=self.sequence),
            ),
        ).to_bytes()
        return envelope.tensor_of(sealed), sealed


class Opener:
    """Opens with the secret key `secret` (32 bytes).

    `required` refuses what is not sealed, `pad_bytes` pads the answers, `refused` is told of each
    request that is not taken. `random` gives random bytes, which need not be secret.
    """

    def __init__(
        self,
        secret: bytes,
        *,
        required: bool,
        pad_bytes: int,
        random: Callable[[int], bytes],
        refused: Callable[[SealError], None] | None = None,
        cipher: SealCipher | None = None,
    ) -> None:
        self._secret = secret
        self._required = required
        self._pad_bytes = pad_bytes
        self._random = random
        self._refused = refused
        self._cipher = cipher or best_cipher()
        self._key_id = envelope.short_id(self._cipher.public(secret))
        self._epochs: OrderedDict[tuple[bytes, bytes], _Epoch] = OrderedDict()

    def __repr__(self) -> str:
        return f"Opener(key={self._key_id.hex()}, epochs={len(self._epochs)})"

    def open(
        self, request: Request, payloads: Frames, *, session: bytes, boot: bytes
    ) -> tuple[Request, Frames, AnswerSealer | None]:
        """The request as it was before it was sealed, and what seals its answer; None when it came
        in the clear and may. Raises SealError, TooLargeError."""
        try:
            if not is_sealed(request) and not self._required:
                return request, payloads, None
            return self._open(request, payloads, session, boot)
        except SealError as error:
            if self._refused is not None:
                self._refused(error)
            raise

    def _open(
        self, request: Request, payloads: Frames, session: bytes, boot: bytes
    ) -> tuple[Request, Frames, AnswerSealer]:
        sealed = RequestEnvelope.parse(envelope.envelope_of(request.tensors, payloads))
        if sealed.key_id != self._key_id:
            raise WrongSealKeyError("the payload is sealed to another key")
        known = self._epochs.get((session, sealed.enc))
        epoch = known or self._epoch(sealed.enc, envelope.context_info(session=session, boot=boot))
        if not epoch.window.fresh(sealed.sequence):
            raise ReplayedError("the sealed payload came before")
        associated = envelope.of_request(id=request.id, bundle=request.bundle, cut=request.cut)
        plain = epoch.context.open(sealed.sequence, sealed.ciphertext, associated)
        epoch.window.take(sealed.sequence)
        # Only now: what does not open must push nobody's epoch out.
        self._remember((session, sealed.enc), epoch)
        tensors, inner = content.part(plain)
        answers = AnswerSealer(
            id=request.id,
            sequence=sealed.sequence,
            enc=sealed.enc,
            secret=epoch.answers,
            pad_bytes=self._pad_bytes,
            cipher=self._cipher,
            random=self._random,
        )
        return msgspec.structs.replace(request, tensors=tensors), inner, answers

    def _epoch(self, enc: bytes, info: bytes) -> _Epoch:
        context = set_up_recipient(self._cipher, self._secret, enc=enc, info=info)
        return _Epoch(context=context, answers=envelope.answer_secret(context))

    def _remember(self, name: tuple[bytes, bytes], epoch: _Epoch) -> None:
        self._epochs[name] = epoch
        self._epochs.move_to_end(name)
        while len(self._epochs) > _MAX_EPOCHS:
            self._epochs.popitem(last=False)


def refuse_unless_clear(request: Request) -> None:
    """What an edge without a sealing key does with a request. Raises WrongSealKeyError."""
    if is_sealed(request):
        raise WrongSealKeyError("the payload is sealed, and this edge has no sealing key")
