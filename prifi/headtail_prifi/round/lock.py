"""The equivocation lock: what a client sends opens only if all clients saw the same history.

Ours; it replaces PriFi's q = H(pad) in Z_q (`prifi/README.md`, "Differences"). All is linear over
GF(2^128). From the history after round r come two public elements H1, H2; from each pair's stream,
*disjoint from its pad*, two secret elements Q1, Q2 per lane. A client sends, with its own history,

    lane = value  xor  H1 (x) (xor_j Q1_ij)  xor  H2 (x) (xor_j Q2_ij)

where value is the one-time key of the cell (key lane; 0 unless it owns the sub-slot) or its
reservation bit. Guards send the XOR of their streams and know no history. The relay adds up and
removes H1 (x) Q1 xor H2 (x) Q2 of the total.

Why it hides. Let honest clients a and b have different histories, and guard j be honest. The sum
holds (H1_a + H1_b) (x) Q1_aj + (H2_a + H2_b) (x) Q2_aj, and one of the differences is not 0. Q_aj
is unknown to all but a and j, used in no other place and uniform, and multiplication by an element
other than 0 is a bijection: the sum is uniform, whatever value was. If all histories agree, the
lanes of honest clients are uniform up to their sum, so they don't tell whose value it is.

Why disjoint. Were Q a function of the pad, the relay and m-1 guards could compute the pad of a
client under the guess "it is no owner", derive Q from it, and test the lane: that names the owner
every time (`tests/prifi/test_p3_tags.py` does it to that variant).

Why two elements. One element of 128 bits would be a truncated hash: a relay can find two histories
with one value by 2^64 hashes in advance. Two of them carry the whole 256-bit hash. A client sends
not one byte more for it, a guard 16 bytes a lane.
"""

import hashlib
from typing import Final

from headtail_prifi.core.geometry import LANE_BYTES
from headtail_prifi.crypto.field import inner_product

_PURPOSE: Final = b"prifi/lock\0"


class Lock:
    """The public elements of one round."""

    def __init__(self, link: bytes) -> None:
        digest = hashlib.sha256(_PURPOSE + link).digest()
        self._product = inner_product(digest[:LANE_BYTES], digest[LANE_BYTES:])

    def mask(self, secrets: bytes) -> bytes:
        """H1 (x) Q1 xor H2 (x) Q2 for each lane.

        `secrets` holds the first elements of all lanes, then the second ones, 16 bytes each; the
        result has half as many bytes.
        """
        return self._product.with_rows(secrets)
