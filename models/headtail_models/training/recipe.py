"""A recipe: all that decides how something is trained, as a small TOML file.

name = "yolov3-tiny-coco"
job = "yolov3-tiny"            what is trained
seed = 1
[options]                      the job's own keys
channels = 64

[[stage]]                      one after the other
name = "warm up"
steps = 600
batch = 16
rate = 1e-3
rates = { trunk = 3e-4 }       of groups of parameters that learn at another rate
freeze = ["encoder"]           groups that do not learn
settings = { target_bpp = 0.2 }    what the job changes in this stage
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from headtail_models.training.errors import RecipeError

_RECIPES: Final = "recipes"
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Rate = Annotated[float, Meta(gt=0, le=10)]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}\Z")]
Options = TypeVar("Options", bound=msgspec.Struct)


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class StageRecipe(_Part, frozen=True, kw_only=True):
    """One run of the optimiser. The rate rises for `warmup` steps, then falls along a cosine to
    `end_rate` of itself (Loshchilov and Hutter, "SGDR", ICLR 2017)."""

    name: Word
    steps: Count
    batch: Count
    optimiser: Literal["adamw", "sgd"] = "adamw"
    rate: Rate
    rates: dict[Word, Rate] = {}
    freeze: tuple[Word, ...] = ()
    warmup: Annotated[int, Meta(ge=0)] = 20
    end_rate: Annotated[float, Meta(ge=0, le=1)] = 0.02
    weight_decay: Annotated[float, Meta(ge=0)] = 0.0
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    clip: Rate | None = None
    bf16: bool = False
    """Half precision where this machine is faster with it."""
    evaluate_every: Count = 500
    patience: Count | None = None
    """Evaluations without a better score after which the stage ends; never, if left out."""
    settings: dict[Word, float] = {}


class Recipe(_Part, frozen=True, kw_only=True):
    """A whole training."""

    name: Word
    job: Word
    about: str = ""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    options: dict[str, Any] = {}
    stage: Annotated[tuple[StageRecipe, ...], Meta(min_length=1)]

    def options_as(self, kind: type[Options]) -> Options:
        """The job's own keys. Raises RecipeError for one that the job does not know."""
        try:
            return msgspec.convert(self.options, kind)
        except msgspec.ValidationError as error:
            raise RecipeError(f"recipe {self.name}, options: {error}") from None

    @property
    def steps(self) -> int:
        """Of all stages."""
        return sum(stage.steps for stage in self.stage)

    def fingerprint(self) -> bytes:
        """Equal for equal recipes."""
        return msgspec.json.encode(self, order="deterministic")


def built_in() -> tuple[str, ...]:
    """The names of the recipes that Headtail was released with."""
    folder = files(__package__).joinpath(_RECIPES)
    return tuple(sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".toml")))


def read_recipe(reference: str) -> Recipe:
    """The recipe of a file, or the built-in one of that name. Raises RecipeError."""
    if reference in built_in():
        text = files(__package__).joinpath(_RECIPES, f"{reference}.toml").read_text("utf-8")
    else:
        try:
            text = Path(reference).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            known = ", ".join(built_in())
            raise RecipeError(
                f"{reference}: {getattr(error, 'strerror', None) or error}; built in are: {known}"
            ) from None
    return parse_recipe(text, name=reference)


def parse_recipe(text: str, *, name: str) -> Recipe:
    """The recipe of a TOML text. Raises RecipeError, naming the key."""
    try:
        return msgspec.convert(tomllib.loads(text), Recipe)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise RecipeError(f"{name}: {error}") from None
