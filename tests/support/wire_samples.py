"""One message of each kind, for the vectors and the round trips."""

from headtail_fabric import wire
from headtail_fabric.wire import DType, ErrorCode, Hints, TensorInfo, Timings

DIGEST = bytes(range(32))
SESSION = bytes(range(16))
TENSOR = TensorInfo(
    name="L7", dtype=DType.FLOAT32, shape=(1, 128, 26, 26), codec="q8+zstd", quantiser="L7/q8"
)
HINTS = Hints(queue_ms=12, batch=4, active=3)

SAMPLES: dict[str, tuple[wire.Message, list[bytes]]] = {
    "hello": (
        wire.Hello(
            session=SESSION, name="cam-1", agent="headtail/0.1", bundles=(DIGEST,), can_push=True
        ),
        [],
    ),
    "offer": (
        wire.Offer(
            session=SESSION,
            boot=bytes(16),
            name="edge",
            agent="headtail/0.1",
            bundles=(DIGEST,),
            window=16,
            heartbeat_ms=1000,
        ),
        [],
    ),
    "request": (
        wire.Request(id=7, bundle=DIGEST, cut="L7", remaining_ms=250, attempt=1, tensors=(TENSOR,)),
        [b"payload"],
    ),
    "result": (
        wire.Result(
            id=7,
            tensors=(
                TensorInfo(name="detections", dtype=DType.FLOAT32, shape=(0, 6), codec="raw"),
            ),
            timings=Timings(
                queue_us=100, decode_us=200, compute_us=30_000, post_us=400, resident_us=31_000
            ),
            hints=HINTS,
        ),
        [b""],
    ),
    "busy": (wire.Busy(id=7, retry_after_ms=50, hints=HINTS), []),
    "error": (wire.ErrorReply(id=7, code=ErrorCode.UNKNOWN_CUT, message="no cut 'L99'"), []),
    "ping": (wire.Ping(nonce=1), []),
    "pong": (wire.Pong(nonce=1, hints=HINTS), []),
    "cancel": (wire.Cancel(id=7), []),
    "bundle-need": (wire.BundleNeed(digest=DIGEST, offset=262_144), []),
    "bundle-part": (wire.BundlePart(digest=DIGEST, offset=262_144, total=300_000), [b"part"]),
    "bundle-have": (wire.BundleHave(digest=DIGEST), []),
    "goodbye": (wire.Goodbye(reason="closed"), []),
    "bundle-refused": (wire.BundleRefused(digest=DIGEST, reason="too large"), []),
    "traced-request": (
        wire.TracedRequest(
            id=7,
            bundle=DIGEST,
            cut="L7",
            remaining_ms=250,
            attempt=1,
            tensors=(TENSOR,),
            trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        [b"payload"],
    ),
    "tail-due": (wire.TailDue(bundle=DIGEST, cut="L7", due_ms=40), []),
    "advice": (wire.Advice(id=7, cut="L9", codec="q4+zstd"), []),
}
