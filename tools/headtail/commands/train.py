"""`headtail train`: learn a bottleneck or exits, by a recipe."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from headtail.data_folder import DATA, data_folder
from headtail_fabric.config import cache_home
from headtail_fabric.errors import ConfigError

if TYPE_CHECKING:
    from headtail_models.training.trainer import Outcome
    from headtail_models.training.trainer import Progress as Step

_EXAMPLES: Final = """\
examples:
  headtail train --list
  headtail train yolov3-tiny-coco --data photos/ --out trained/      again, to go on after a stop
  headtail train my-recipe.toml
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "train",
        help="train a bottleneck or early exits by a recipe",
        description="Train what a recipe names. The folder gets checkpoints, two CSV files with "
        "the losses and the scores, and the curves as a picture; the best checkpoint is chosen on "
        "a calibration split. A training that was stopped goes on where it was.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="a TOML file or a known name")
    parser.add_argument("--list", action="store_true", help="the recipes that come with Headtail")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help=f"where the pictures and sounds are (${DATA})"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="trained/RECIPE, if left out")
    parser.set_defaults(handler=_train)


def _train(args: argparse.Namespace) -> int:
    from headtail_models.training.recipe import built_in, read_recipe

    if args.list:
        table = Table("recipe", "what", "steps", box=None, pad_edge=False)
        for name in built_in():
            known = read_recipe(name)
            table.add_row(name, known.about, f"{known.steps:,}")
        Console().print(table)
        return 0
    if args.recipe is None:
        raise ConfigError("name a recipe; `headtail train --list` shows those that are known")
    recipe = read_recipe(args.recipe)
    data = args.data or data_folder()
    if data is None or not data.is_dir():
        raise ConfigError(f"name the folder of the training data with --data or ${DATA}")
    try:
        from headtail_models.training import history, jobs, trainer
    except ImportError as missing:
        raise ConfigError(f"training needs {missing.name}: pip install 'headtail[train]'") from None
    console = Console(stderr=True)
    with console.status(f"Preparing {recipe.name}: data and the features of what is frozen"):
        job = jobs.open_job(recipe, data, cache_home() / "features" / recipe.name)
    folder = args.out or Path("trained") / recipe.name
    with _Bar(console, recipe.steps) as bar:
        outcome = trainer.train(job, recipe, folder, progress=bar.show)
    drawn = history.draw(folder)
    _print(outcome, drawn)
    return 0


class _Bar(Progress):
    """One bar for the whole training, with the loss and the last score beside it."""

    def __init__(self, console: Console, steps: int) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self.add_task("begin", total=steps)

    def show(self, at: "Step") -> None:
        score = at.scores.get("score")
        words = f"{at.stage}  loss {at.loss:.3f}"
        if score is not None:
            words += f"  score {score:.3f}"
        self.update(self._task, completed=at.step, description=words)


def _print(outcome: "Outcome", drawn: Path | None) -> None:
    table = Table("best", f"at step {outcome.best_step:,} of {outcome.steps:,}", box=None)
    for name, value in outcome.best.items():
        table.add_row(name, f"{value:.4g}")
    console = Console()
    console.print(table)
    console.print(f"Weights: {outcome.folder / 'best.pt'}", markup=False, highlight=False)
    if drawn is not None:
        console.print(f"Curves:  {drawn}", markup=False, highlight=False)
