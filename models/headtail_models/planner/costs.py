"""What was measured of a model on one machine: the file that `headtail plan --json` writes.

Made on the device, it is the device's profile; made on the server, it is the server's.
"""

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_fabric.errors import ConfigError
from headtail_fabric.logs import printable
from headtail_models.planner.errors import PlanFileError
from headtail_models.planner.option import NonNegative

SCHEMA: Final = 1
_MAX_FILE_BYTES: Final = 32 * 2**20
Natural = Annotated[int, Meta(ge=0)]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PayloadCost(_Record, frozen=True, kw_only=True):
    """One codec: mean bytes a frame and seconds on the machine that measured.

    `samples` 0: the size follows from the shape, and the times are those of a random input.
    """

    codec: str
    mean_bytes: NonNegative
    encode_s: NonNegative = 0.0
    decode_s: NonNegative = 0.0
    samples: Natural = 0


class Crossing(_Record, frozen=True, kw_only=True):
    """A tensor that is sent, its shape for one frame."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class CutCost(_Record, frozen=True, kw_only=True):
    """A cut. `measured` False: the times were interpolated by multiply-adds."""

    name: str
    tensors: tuple[Crossing, ...]
    head_macs: Natural
    head_s: NonNegative
    tail_s: NonNegative
    measured: bool
    payloads: tuple[PayloadCost, ...]


class Machine(_Record, frozen=True, kw_only=True):
    """Where it was measured. `load`: how many processes wanted to run, a minute's mean."""

    processor: str
    cores: Natural
    load: NonNegative
    onnxruntime: str


class ModelCosts(_Record, frozen=True, kw_only=True):
    """A model and its cuts. Times are processor seconds of one thread."""

    schema: int = SCHEMA
    model: str
    sha256: str
    machine: Machine
    samples: Natural
    full_macs: Natural
    full_s: NonNegative
    cuts: tuple[CutCost, ...]
    offload: tuple[PayloadCost, ...]
    uncounted: tuple[str, ...] = ()

    def cut(self, name: str) -> CutCost | None:
        """The cut of that name, or None."""
        return next((cut for cut in self.cuts if cut.name == name), None)


def write_costs(costs: ModelCosts, path: Path) -> None:
    """Raises ConfigError."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")
    except OSError as error:
        raise ConfigError(f"{printable(str(path))}: {error.strerror}") from None


def read_costs(path: Path, *, sha256: str | None = None) -> ModelCosts:
    """The costs in a file, of the model with that hash. Raises PlanFileError, ConfigError."""
    told = printable(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise PlanFileError(f"{told} is larger than a plan can be")
        costs = msgspec.json.decode(data, type=ModelCosts)
    except OSError as error:
        raise ConfigError(f"{told}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PlanFileError(f"{told}: {error}") from None
    if costs.schema != SCHEMA:
        raise PlanFileError(f"{told} has schema {costs.schema}, this Headtail reads {SCHEMA}")
    if sha256 is not None and costs.sha256 != sha256:
        raise PlanFileError(f"{told} is about another model file, {costs.model}")
    return costs
