"""Parsers of `headtail_fabric`: messages, peers, seals, codecs, settings."""

import functools
import random
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from fuzzing.framing import join, split
from fuzzing.target import Target
from headtail_device.config import DeviceConfig
from headtail_edge.config import EdgeConfig
from headtail_fabric import config, config_example, wire
from headtail_fabric.codec import TensorCodec, codec_for
from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.discovery import Announcement
from headtail_fabric.emulator import PRESETS, parse_link
from headtail_fabric.errors import PeerError
from headtail_fabric.peer.client import ClientCore
from headtail_fabric.peer.server import ServerCore
from headtail_fabric.rans.alphabet import Alphabet
from headtail_fabric.rans.codec import RansCodec
from headtail_fabric.rans.fit_tables import fit
from headtail_fabric.rans.levels import StepLevels
from headtail_fabric.rans.model import CodingModel
from headtail_fabric.rans.specimen import levels
from headtail_fabric.seal import Opener, Sealer, content
from headtail_fabric.seal.cipher import best_cipher
from headtail_fabric.tracing import TraceContext
from headtail_fabric.wire import DType, Request
from wire_samples import DIGEST, SAMPLES, SESSION, TENSOR

_SHAPE = (1, 3, 8, 8)
_ALPHABET = Alphabet(low=-8, count=16)
_SECRET = bytes(range(32))


def messages() -> list[bytes]:
    """Every kind of message."""
    return [join([bytes(f) for f in wire.encode(*sample)]) for sample in SAMPLES.values()]


def run_wire(data: bytes) -> None:
    wire.decode(split(data))


def run_server(data: bytes) -> None:
    """An edge with one session takes the message, acts on its timers, and still greets others."""
    core = ServerCore(boot=bytes(16), name="edge", agent="fuzz", window=4)
    core.receive(b"one", "", wire.encode(SAMPLES["hello"][0]), 0.0)
    core.receive(b"one", "", split(data), 0.1)
    while core.next_event() is not None:
        pass
    core.on_timer(10.0)
    core.receive(b"two", "", wire.encode(SAMPLES["hello"][0]), 10.0)
    core.to_send(10.0)


def run_client(data: bytes) -> None:
    """A device with a session and a request takes the message; the request still ends."""
    core = ClientCore(
        session=SESSION,
        name="cam",
        agent="fuzz",
        bundles=(DIGEST,),
        can_push=True,
        curve=False,
        random=random.Random(1).random,
    )
    core.link_up(0.0)
    core.receive(wire.encode(SAMPLES["offer"][0]), 0.0)
    for _ in range(7):
        core.submit(
            bundle=DIGEST, cut="L7", tensors=[TENSOR], payloads=[b"x"], deadline_s=5.0, now=0.0
        )
    core.to_send(0.0)
    with suppress(PeerError):
        core.receive(split(data), 0.1)
    core.to_send(0.2)
    if (due_at := core.next_timer()) is not None:
        core.on_timer(due_at)


def _sealed() -> tuple[Sealer, Request, bytes]:
    sealer = Sealer(best_cipher().public(_SECRET), pad_bytes=64, random=random.Random(2).randbytes)
    sealer.begin(session=SESSION, boot=bytes(16))
    tensor, envelope = sealer.seal([TENSOR], [b"payload"], id=7, bundle=DIGEST, cut="L7")
    request = Request(id=7, bundle=DIGEST, cut="L7", remaining_ms=250, attempt=1, tensors=(tensor,))
    return sealer, request, bytes(envelope)


def _opener() -> Opener:
    return Opener(_SECRET, required=True, pad_bytes=0, random=random.Random(3).randbytes)


@functools.cache
def _exchange() -> tuple[Sealer, Request]:
    sealer, request, _ = _sealed()
    return sealer, request


def open_request(data: bytes) -> None:
    _, request = _exchange()
    _opener().open(request, [data], session=SESSION, boot=bytes(16))


def open_answer(data: bytes) -> None:
    sealer, request = _exchange()
    sealer.open(request.tensors, [data], id=7)


def seal_corpus() -> list[bytes]:
    _, request, envelope = _sealed()
    answers = _opener().open(request, [envelope], session=SESSION, boot=bytes(16))[2]
    assert answers is not None
    joined = content.join([TENSOR, TENSOR], [b"one", b"other"], pad_bytes=0)
    return [envelope, bytes(answers.seal([TENSOR], [b"answer"])[1]), bytes(joined)]


@functools.cache
def _codecs() -> tuple[TensorCodec, ...]:
    quantiser = Quantiser(low=np.full(3, -1, np.float32), high=np.full(3, 1, np.float32))
    return (
        *(
            codec_for(name, dtype=DType.FLOAT32, quantiser=quantiser)
            for name in ("q8", "q4", "q8+zstd", "q4+zstd", "q8-nhwc", "q4-nhwc", "q2-nhwc")
        ),
        *(codec_for(name, dtype=DType.FLOAT32) for name in ("raw", "raw+zstd")),
    )


def run_codecs(data: bytes) -> None:
    """The first byte chooses the codec."""
    codec = _codecs()[data[0] % len(_codecs())] if data else _codecs()[0]
    codec.decode(memoryview(data)[1:], _SHAPE)


def codec_corpus() -> list[bytes]:
    tensor = np.random.default_rng(4).normal(size=_SHAPE).astype(np.float32)
    return [
        bytes([at]) + bytes(memoryview(codec.encode(tensor)).cast("B"))
        for at, codec in enumerate(_codecs())
    ]


@functools.cache
def _picture_codecs() -> tuple[TensorCodec, ...]:
    return tuple(codec_for(name, dtype=DType.UINT8) for name in ("jpeg", "webp"))


def run_jpeg(data: bytes) -> None:
    _picture_codecs()[0].decode(data, (1, 24, 32, 3))


def run_webp(data: bytes) -> None:
    _picture_codecs()[1].decode(data, (1, 24, 32, 3))


def picture_corpus() -> list[bytes]:
    picture = np.random.default_rng(5).integers(0, 255, (1, 24, 32, 3), dtype=np.uint8)
    return [bytes(memoryview(codec.encode(picture)).cast("B")) for codec in _picture_codecs()]


@functools.cache
def _model() -> CodingModel:
    return fit([levels((4, 3, 8, 8), _ALPHABET, seed=1)], _ALPHABET)


@functools.cache
def _rans() -> RansCodec:
    return RansCodec(StepLevels(steps=np.full(3, 0.25, np.float32), alphabet=_ALPHABET), _model())


def run_rans(data: bytes) -> None:
    _rans().decode(data, _SHAPE)


def rans_corpus() -> list[bytes]:
    draw = np.random.default_rng(6)
    tensors = [draw.normal(scale=scale, size=_SHAPE) for scale in (0.1, 1.0, 3.0)]
    return [bytes(_rans().encode(tensor.astype(np.float32))) for tensor in tensors]


def mend_model(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def run_edge_config(data: bytes) -> None:
    config.parse(EdgeConfig, data.decode("utf-8", "replace"), source="fuzz")


def run_device_config(data: bytes) -> None:
    config.parse(DeviceConfig, data.decode("utf-8", "replace"), source="fuzz")


def config_corpus() -> Sequence[bytes]:
    """Every setting with its default, and without the comments."""
    required = 'source = "0"\nbundle = "b"\nmode = "local"\n'
    device = config_example.example(DeviceConfig).replace('\nmode = "edge"', "")
    texts = [config_example.example(EdgeConfig), required + device]
    bare = [
        "\n".join(line for line in text.splitlines() if not line.startswith("#")) for text in texts
    ]
    return [text.encode() for text in (*texts, *bare)]


def run_link_text(data: bytes) -> None:
    parse_link(data.decode("utf-8", "replace"))


def link_text_corpus() -> list[bytes]:
    return [
        *(name.encode() for name in PRESETS),
        b"rate=2mbit rtt=30ms jitter=5ms loss=1% burst=16kB",
        b"lte outage=5s/60s/cut",
        b"10s wifi-good; 5s lte-bad; 3s outage; repeat",
    ]


def run_announcement(data: bytes) -> None:
    """Frames are the keys and values of a TXT record."""
    frames = split(data)
    Announcement.from_txt(dict(zip(frames[::2], frames[1::2], strict=False)))


def announcement_corpus() -> list[bytes]:
    full = Announcement(name="edge-1", fingerprint="ab" * 16, bundles=("cd" * 6,))
    return [join([part.encode() for pair in full.to_txt().items() for part in pair])]


def run_trace(data: bytes) -> None:
    TraceContext.parse(data.decode("latin-1"))


TARGETS = (
    Target(
        name="mdns",
        what="announcements of edges",
        parsers=(run_announcement,),
        corpus=announcement_corpus,
    ),
    Target(
        name="trace",
        what="traceparents",
        parsers=(run_trace,),
        corpus=lambda: [b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    ),
    Target(name="wire", what="messages of the wire format", parsers=(run_wire,), corpus=messages),
    Target(
        name="server", what="an edge's core, one message", parsers=(run_server,), corpus=messages
    ),
    Target(
        name="client", what="a device's core, one message", parsers=(run_client,), corpus=messages
    ),
    Target(
        name="seal",
        what="sealed payloads, both ends",
        parsers=(open_request, open_answer, content.part),
        corpus=seal_corpus,
    ),
    Target(
        name="codecs", what="raw, q8, q4, with zstd", parsers=(run_codecs,), corpus=codec_corpus
    ),
    Target(
        name="pictures", what="jpeg and webp", parsers=(run_jpeg, run_webp), corpus=picture_corpus
    ),
    Target(name="rans", what="entropy-coded payloads", parsers=(run_rans,), corpus=rans_corpus),
    Target(
        name="coding-model",
        what="coding models of bundles",
        parsers=(CodingModel.from_bytes,),
        corpus=lambda: [_model().to_bytes()],
        mend=mend_model,
    ),
    Target(
        name="config",
        what="TOML of edge and device",
        parsers=(run_edge_config, run_device_config),
        corpus=config_corpus,
    ),
    Target(name="link", what="`--link` texts", parsers=(run_link_text,), corpus=link_text_corpus),
)
