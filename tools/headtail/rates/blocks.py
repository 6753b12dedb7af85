"""The published blocks that benchmarks put beside the classifier's own cut, from a folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, TaskID

from headtail.data_folder import data_folder
from headtail_fabric.config import cache_home
from headtail_fabric.errors import ConfigError
from headtail_models.bundle import Bundle
from headtail_models.entrance import entrance_for
from headtail_models.rate.block import block_crossing
from headtail_models.rate.cut import Crossing
from headtail_models.rate.errors import RateError
from headtail_models.zoo.mobilenet_v2 import NAME

if TYPE_CHECKING:
    from headtail_models.training.trainer import Progress as Step


def block_crossings(bundle: Bundle, folder: Path, *, threads: int = 1) -> Iterator[Crossing]:
    """Each block of `folder`; those that are not there are trained first, with the data that
    HEADTAIL_DATA names.

    Raises RateError for another network than theirs, ConfigError without torch, and what the
    training raises.
    """
    if bundle.manifest.name != NAME:
        raise RateError(f"published blocks are trained for {NAME}, not for {bundle.name}")
    try:
        from headtail_models.training import blocks
    except ImportError as missing:
        raise ConfigError(f"blocks need {missing.name}: pip install 'headtail[train]'") from None
    for channels in blocks.CHANNELS:
        recipe = blocks.block_recipe(channels)
        with Progress(console=Console(stderr=True), transient=True) as bars:
            bar = _Bar(bars, bars.add_task(f"{recipe.name}, b = {channels}", total=recipe.steps))
            files = blocks.make_block(
                folder,
                channels,
                data=data_folder() or Path(),
                cache=cache_home() / "features" / recipe.name,
                progress=bar,
            )
        yield block_crossing(
            files.name,
            files.head,
            files.tail,
            entrance=entrance_for(bundle.manifest),
            threads=threads,
        )


class _Bar:
    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def __call__(self, at: "Step") -> None:
        self._bars.update(self._task, completed=at.step)
