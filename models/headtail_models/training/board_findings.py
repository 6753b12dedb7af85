"""What a network for a board was found to be worth, on samples of nobody it was trained on."""

import msgspec


class Gained(msgspec.Struct, frozen=True, kw_only=True):
    """Exit and tail together at one operating point; `sent_bytes` a decision, on average."""

    point: str
    bits: int
    accuracy: float
    coverage: float
    sent_bytes: float


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracies on the test split. `float_tail`, `int_tail` and `payload_bytes` by bits a value;
    `float_full` is the whole network with a code that is not rounded."""

    name: str
    samples: int
    raw_bytes: int
    float_full: float
    float_exit: float
    float_tail: dict[int, float]
    int_exit: float
    int_tail: dict[int, float]
    payload_bytes: dict[int, int]
    together: tuple[Gained, ...]
    arena_bytes: int
    blob_bytes: int
