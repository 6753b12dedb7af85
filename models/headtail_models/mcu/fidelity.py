"""How far the integers are from the network in floating point, output by output."""

from dataclasses import dataclass

import numpy as np

from headtail_models.mcu.floats import run_floats
from headtail_models.mcu.layers import Floats, HeadGraph
from headtail_models.mcu.program import Program, Role
from headtail_models.mcu.twin import Twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """`error`: root mean square of the difference over that of the values.

    `agreement`: share of samples with the same largest value; of logits only.
    """

    name: str
    role: Role
    error: float
    agreement: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Of one head on some samples. `exits`: share of them that the board would not send."""

    outputs: tuple[Fidelity, ...]
    exits: float


def compare(graph: HeadGraph, program: Program, samples: Floats) -> Comparison:
    """The twin of `program` against `graph`, of which it was made, on samples (N, h, w, c)."""
    wanted = run_floats(graph, samples)
    outcomes = Twin(program).run(samples)
    found = []
    for index, (name, output) in enumerate(zip(graph.outputs, program.outputs, strict=True)):
        reals = np.stack([output.quantiser.reals(o.levels[index]) for o in outcomes])
        reals, exact = reals.reshape(len(samples), -1), wanted[name].reshape(len(samples), -1)
        power = float(np.square(exact).mean())
        error = float(np.square(reals - exact).mean())
        same = float((reals.argmax(axis=1) == exact.argmax(axis=1)).mean())
        found.append(
            Fidelity(
                name=name,
                role=output.role,
                error=(error / power) ** 0.5 if power else 0.0,
                agreement=same if output.role is Role.LOGITS else None,
            )
        )
    return Comparison(
        outputs=tuple(found), exits=float(np.mean([outcome.exited for outcome in outcomes]))
    )
