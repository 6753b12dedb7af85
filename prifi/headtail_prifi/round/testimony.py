"""What the round loop of a client or a guard tells its witness in blame."""

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.crypto.cipher import PadStream
from headtail_prifi.round.chain import Chain
from headtail_prifi.round.composer import Composer
from headtail_prifi.round.history import HistoryStatement
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.outbound import Outbound
from headtail_prifi.round.pads import combined
from headtail_prifi.round.segment import Segments
from headtail_prifi.setup.roster import Membership


class ClientTestimony:
    """From the history that the client saw, its streams, and what it said."""

    def __init__(
        self,
        *,
        segments: Segments,
        chain: Chain,
        composer: Composer,
        outbound: Outbound,
        geometry: Geometry,
    ) -> None:
        self._segments = segments
        self._chain = chain
        self._composer = composer
        self._outbound = outbound
        self._geometry = geometry

    def membership(self, version: int) -> Membership | None:
        return self._segments.membership(version)

    def sees_history(self) -> bool:
        return True

    def link(self, round_: int) -> bytes | None:
        return self._chain.link_of(round_)

    def statement(self, round_: int) -> HistoryStatement | None:
        return self._chain.statement(round_)

    def streams(self, version: int) -> tuple[PadStream, ...]:
        return self._segments.streams(version)

    def cipher(self, version: int, round_: int) -> bytes | None:
        link = self._chain.link_of(round_)
        if link is None:
            return None
        (row,) = combined(self.streams(version), self._geometry, round_, 1)
        return self._composer.again(row, Lock(link), self._outbound.said(round_))


class GuardTestimony:
    """From the streams alone: a guard knows no history and can repeat every cipher."""

    def __init__(self, segments: Segments, geometry: Geometry) -> None:
        self._segments = segments
        self._geometry = geometry

    def membership(self, version: int) -> Membership | None:
        return self._segments.membership(version)

    def sees_history(self) -> bool:
        return False

    def link(self, round_: int) -> bytes | None:
        return None

    def statement(self, round_: int) -> HistoryStatement | None:
        return None

    def streams(self, version: int) -> tuple[PadStream, ...]:
        return self._segments.streams(version)

    def cipher(self, version: int, round_: int) -> bytes | None:
        return combined(self.streams(version), self._geometry, round_, 1).tobytes()
