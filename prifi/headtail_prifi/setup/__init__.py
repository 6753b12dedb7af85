"""From a signed roster to an epoch: keys, verifiable shuffle, slots. Sans-IO, one core per role.

    1  relay    announces: number, roster, clients, parameters; their hash names the epoch
    2  guards   bring Y_j (pads) and Z_j (accusation shuffles), clients X_i (pads) and E_i
                (pseudonym), all fresh, signed by the pinned key and with proofs of their secrets
    3  guards   one after the other shuffle the pseudonym keys: base and list leave at once, the
                proof follows while the next guard shuffles
    4  guards   verify every signature and proof, and endorse: one hash over epoch, all pad keys,
                the last base and the slots
    5  relay    passes on the outcome and all endorsements
    6  clients  check them, find their own slot, and derive the pad secrets with each guard

Whom it protects from what. The relay can only pass on or keep back, as everything is signed by its
author and bound to the epoch. A guard can't mark, replace, copy or drop a key, as one honest guard
verifies its proof. A client can't bring a key that is related to another's, as it proves that it
knows both secrets. Nothing of an attempt that failed is ever used again.
"""
