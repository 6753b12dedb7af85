"""What can be wrong with something sealed. Each costs its sender one request and nobody else."""

from headtail_fabric.wire import WireError


class SealError(WireError):
    """A sealed payload can't be used. It was not taken, and nothing of it was computed."""


class TruncatedError(SealError):
    """A sealed payload is shorter than its parts, or of another layout. Check that both sides run
    the same version of Headtail."""


class WrongSealKeyError(SealError):
    """A payload was sealed to another key than this edge's. Give the device the `.seal.pub` file of
    the edge that it talks to (`edge.seal_to`)."""


class TamperedError(SealError):
    """A sealed payload does not open: it, or its request's id, bundle or cut, was changed on the
    way, or it was sealed for another session. If this comes again, look at what stands between."""


class ReplayedError(SealError):
    """A sealed payload came a second time, or so late that it can't be told from a repeated one. A
    device that still wants the answer seals its request anew; if this comes often, look at what
    stands between the two."""


class NotSealedError(SealError):
    """A payload came in the clear where only sealed ones are taken. Set `edge.seal_to` on the
    device, or `seal.required = false` on the edge."""
