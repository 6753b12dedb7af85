"""That a hidden list of scalars is a permutation of a public random one: the core of both shuffles.

Terelius and Wikstrom (Africacrypt 2010): a matrix M over Z_q is a permutation matrix if and only
if M 1 = 1 and prod_i <M_i, u> = prod_i u_i as polynomials in u; so it suffices to check both at
one random u. The product is proven by the single value product argument of Bayer and Groth
(Eurocrypt 2012, 5.3), with fewer multiplications than a chain of n commitments.

Setting. g is the group's base, h_1 .. h_n come from hash-to-point, so nobody knows a relation
among them, and com(a; r) = r g + sum a_i h_i is a perfectly hiding, computationally binding
commitment. pi is the permutation: output i comes from input pi(i).

    P -> V   C_j = r_j g + h_i  for j = pi(i)             commits to the columns of the matrix
    V -> P   u_1 .. u_n
             now U = sum u_j C_j = com(u'; rho), where u'_i = u_pi(i) and rho = sum u_j r_j
    P -> V   S  = w_s g
             D  = com(d; r_d)                              d random
             D1 = com(-delta_i d_{i+1}; s_1)               i = 1 .. n-1
             D2 = com(delta_{i+1} - u'_{i+1} delta_i - b_i d_{i+1}; s_x)
             with b_i = u'_1 .. u'_i, delta_1 = d_1, delta_n = 0, the other delta random
    V -> P   e
    P -> V   z_s = e sum r_j + w_s,  a~_i = e u'_i + d_i,  b~_i = e b_i + delta_i  (1 < i < n),
             r~ = e rho + r_d,  s~ = e s_x + s_1

V takes b~_1 = a~_1 and b~_n = e prod u_j, and checks
    (1) z_s g + e sum h_i = e sum C_j + S                  M 1 = 1
    (2) com(a~; r~) = e U + D                              a~ opens U
    (3) com(e b~_{i+1} - b~_i a~_{i+1}; s~) = e D2 + D1    the product

Soundness. (1) and (2) extract the matrix, u' and d, else a relation among g, h_i. (3) at random e
forces e^n prod u_j = prod (e u'_i + d_i) + terms of degree < n in e, so prod u'_i = prod u_j but
with probability n/2^128 (2^128 being the least size of the set of challenges). The prover of a
shuffle uses the same d and a~ for its own linear relation in u', which therefore holds for the
permuted u; over random u it holds only if each output is right.
Zero knowledge. Commitments hide perfectly and every response is masked by a fresh scalar.

Cost: 3n multiplications and n of the base to prove, 2n to verify, as (2) and (3) share the h_i
under a random weight.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise

from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.errors import EncodingError, ProofError
from headtail_prifi.crypto.group import Group, Point, group_named
from headtail_prifi.crypto.sigma import ProofReader, Transcript

MIN_ITEMS = 2
"""One item has nowhere to hide, and the product argument wants two."""


class PermutationProver:
    """The prover's side. Construct it, absorb the announcements of the linear relation, draw the
    challenge, then `respond`."""

    def __init__(
        self, group: Group, transcript: Transcript, order: Sequence[int], entropy: Entropy
    ) -> None:
        """`order[i]` is the input that output i comes from."""
        count = len(order)
        self._group = group
        self._order = order

        def fresh(size: int) -> list[int]:
            return [group.random_scalar(entropy) for _ in range(size)]

        blinds = fresh(count)
        columns = self._columns(blinds)
        transcript.add_points("columns", columns)
        self.weights = transcript.challenges("weights", count)
        self.output_weights = self._permuted()

        q = group.order
        self.masks = fresh(count)
        self._deltas = [self.masks[0], *fresh(count - 2), 0]
        self._products = list(accumulate(self.output_weights, lambda a, b: a * b % q))
        self._sum_blind = sum(blinds)
        self._weight_blind = sum(u * r for u, r in zip(self.weights, blinds, strict=True))
        self._nonce, self._mask_blind, self._first_blind, self._second_blind = fresh(4)
        first = [
            -delta * mask for delta, mask in zip(self._deltas[:-1], self.masks[1:], strict=True)
        ]
        second = [
            self._deltas[i + 1]
            - self.output_weights[i + 1] * self._deltas[i]
            - self._products[i] * self.masks[i + 1]
            for i in range(count - 1)
        ]
        announced = [
            group.mul_base(self._nonce),
            _commit(group, self.masks, self._mask_blind),
            _commit(group, first, self._first_blind),
            _commit(group, second, self._second_blind),
        ]
        transcript.add_points("announcements", announced)
        self.points = [*columns, *announced]

    def _columns(self, blinds: Sequence[int]) -> list[Point]:
        group, count = self._group, len(self._order)
        h = generators(group.name, count)
        columns: list[Point] = [group.base] * count
        for output, source in enumerate(self._order):
            columns[source] = group.add(group.mul_base(blinds[source]), h[output])
        return columns

    def _permuted(self) -> list[int]:
        return [self.weights[source] for source in self._order]

    def respond(self, challenge: int) -> list[int]:
        """z_s, r~, s~, a~_1 .. a~_n, b~_2 .. b~_{n-1}."""
        q = self._group.order
        opened = zip(self.output_weights, self.masks, strict=True)
        products = zip(self._products[1:-1], self._deltas[1:-1], strict=True)
        return [
            challenge * self._sum_blind + self._nonce,
            challenge * self._weight_blind + self._mask_blind,
            challenge * self._second_blind + self._first_blind,
            *((challenge * weight + mask) % q for weight, mask in opened),
            *((challenge * product + delta) % q for product, delta in products),
        ]


class PermutationVerifier:
    """The verifier's side: construct, absorb the same announcements, draw, `check`."""

    def __init__(
        self, group: Group, transcript: Transcript, count: int, reader: ProofReader
    ) -> None:
        self._group = group
        self._transcript = transcript
        self._count = count
        self._columns = reader.points(count)
        transcript.add_points("columns", self._columns)
        self.weights = transcript.challenges("weights", count)
        self._announced = reader.points(4)
        transcript.add_points("announcements", self._announced)

    def check(self, challenge: int, reader: ProofReader) -> list[int]:
        """The openings a~; ProofError unless (1), (2) and (3) hold."""
        group, q = self._group, self._group.order
        h = generators(group.name, self._count)
        summed, mask, first, second = self._announced
        sum_response, blind, product_blind = reader.scalars(3)
        openings = reader.scalars(self._count)
        product = challenge
        for weight in self.weights:
            product = product * weight % q
        products = [openings[0], *reader.scalars(self._count - 2), product]
        steps = [
            challenge * after - before * opening
            for (before, after), opening in zip(pairwise(products), openings[1:], strict=True)
        ]
        self._transcript.add_scalars("responses", [sum_response, blind, product_blind])
        self._transcript.add_scalars("openings", openings)
        self._transcript.add_scalars("products", products)
        weight = self._transcript.challenge("batch")
        mixed = [a + weight * b for a, b in zip(openings, [*steps, 0], strict=True)]
        try:
            row_sums = group.linear((sum_response, challenge), (group.base, group.sum(h)))
            claimed_sums = group.linear((challenge, 1), (group.sum(self._columns), summed))
            commitment = _commit(group, mixed, blind + weight * product_blind)
            claimed = group.linear(
                (challenge, 1, weight * challenge, weight),
                (group.linear(self.weights, self._columns), mask, second, first),
            )
        except EncodingError:
            raise ProofError("a shuffle proof is degenerate") from None
        if row_sums != claimed_sums or commitment != claimed:
            raise ProofError("a shuffle proof does not hold: not a permutation")
        return openings


def _commit(group: Group, values: Sequence[int], blind: int) -> Point:
    h = generators(group.name, len(values))
    return group.linear((blind, *values), (group.base, *h))


def generators(group_name: str, count: int) -> tuple[Point, ...]:
    """h_1 .. h_count, the same for every epoch; kept, as making one costs 15 us to 1 ms."""
    return tuple(_generator(group_name, index) for index in range(1, count + 1))


@cache
def _generator(group_name: str, index: int) -> Point:
    return group_named(group_name).hash_to_point("prifi/shuffle", index.to_bytes(4))
