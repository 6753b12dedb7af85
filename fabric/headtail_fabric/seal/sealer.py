"""The device's end: seals requests to an edge's key, opens its answers."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from headtail_fabric.seal import content, envelope
from headtail_fabric.seal.cipher import SealCipher, best_cipher
from headtail_fabric.seal.envelope import AnswerEnvelope, RequestEnvelope
from headtail_fabric.seal.errors import TamperedError
from headtail_fabric.seal.hpke import Context, set_up_sender
from headtail_fabric.wire import MAX_TENSOR_BYTES, Buffer, Frames, TensorInfo, TooLargeError

_KEPT_EPOCHS: Final = 4
"""Answers that were made before a reconnect may come after it."""


class Sealer:
    """Seals to the public key `recipient` (32 bytes).

    `pad_bytes`, when not 0, rounds up the size of each content, so that the size tells no more of
    it. `random` gives secret random bytes.
    """

    def __init__(
        self,
        recipient: bytes,
        *,
        pad_bytes: int,
        random: Callable[[int], bytes],
        cipher: SealCipher | None = None,
    ) -> None:
        self._recipient = recipient
        self._key_id = envelope.short_id(recipient)
        self._pad_bytes = pad_bytes
        self._random = random
        self._cipher = cipher or best_cipher()
        self._epochs: OrderedDict[bytes, tuple[Context, bytes]] = OrderedDict()
        self._next = 0

    def __repr__(self) -> str:
        return f"Sealer(to={self._key_id.hex()}, epochs={len(self._epochs)}, sealed={self._next})"

    def begin(self, *, session: bytes, boot: bytes) -> None:
        """A session stands: from now on everything is sealed for it, under a fresh key. Raises
        TamperedError when the recipient's key is of small order."""
        context = set_up_sender(
            self._cipher,
            self._recipient,
            info=envelope.context_info(session=session, boot=boot),
            ephemeral=self._random(32),
        )
        epoch = (context, envelope.answer_secret(context))
        self._epochs[envelope.short_id(context.enc)] = epoch
        while len(self._epochs) > _KEPT_EPOCHS:
            self._epochs.popitem(last=False)
        self._next = 0

    def check(self, tensors: Sequence[TensorInfo], payloads: Frames) -> None:
        """Raises TooLargeError for what could not be sealed."""
        size = content.joined_size(tensors, payloads, pad_bytes=self._pad_bytes)
        if size + envelope.REQUEST_OVERHEAD > MAX_TENSOR_BYTES:
            raise TooLargeError(f"a content of {size} bytes to seal", size_bytes=size)

    def seal(
        self, tensors: Sequence[TensorInfo], payloads: Frames, *, id: int, bundle: bytes, cut: str
    ) -> tuple[TensorInfo, Buffer]:
        """The one tensor that stands for all of `tensors`, and its payload. Each call gives others,
        so a request is sealed anew each time it is sent."""
        context, _ = next(reversed(self._epochs.values()))
        sequence, self._next = self._next, self._next + 1
        sealed = RequestEnvelope(
            key_id=self._key_id,
            enc=context.enc,
            sequence=sequence,
            ciphertext=context.seal(
                sequence,
                content.join(tensors, payloads, pad_bytes=self._pad_bytes),
                envelope.of_request(id=id, bundle=bundle, cut=cut),
            ),
        ).to_bytes()
        return envelope.tensor_of(sealed), sealed

    def open(
        self, tensors: tuple[TensorInfo, ...], payloads: Frames, *, id: int
    ) -> tuple[tuple[TensorInfo, ...], Frames]:
        """The answer to request `id`. Raises SealError."""
        answer = AnswerEnvelope.parse(envelope.envelope_of(tensors, payloads))
        if answer.epoch_id not in self._epochs:
            raise TamperedError("an answer to something that was not asked here")
        context, secret = self._epochs[answer.epoch_id]
        key, nonce = envelope.answer_key(secret, context.enc, answer.nonce)
        associated = envelope.of_answer(id=id, sequence=answer.sequence)
        return content.part(self._cipher.open(key, nonce, answer.ciphertext, associated))
