"""Where checkpoints lie, and how they come there.

<cache>/llm/<name>-<hash>/        made once from the model's archive (`headtail_models.assets`)
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headtail_cloud.engines.llm.checkpoint import Checkpoint, open_checkpoint
from headtail_cloud.engines.llm.conversion import WEIGHTS, convert
from headtail_fabric.config import cache_home
from headtail_fabric.errors import ConfigError
from headtail_models.assets import fetch
from headtail_models.assets.catalogue import find
from headtail_models.assets.progress import ProgressSink

LAYOUT: Final = 1
"""Of checkpoints: another number when `conversion` writes them in another way."""


class UnknownModelError(ConfigError):
    """No language model has that name. Choose one that `headtail cloud serve --help` names, or give
    the folder of a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    asset: str
    file: str


_MODELS: Final = {
    "smollm2": _Published(asset="smollm2-135m", file="SmolLM2-135M-Instruct.Q4_1.gguf")
}
NAMES: Final = tuple(_MODELS)


def checkpoint(
    name: str, *, cache_dir: Path | None = None, progress: ProgressSink | None = None
) -> Checkpoint:
    """A published model by its name, fetched and converted when it is not in the cache; or a
    checkpoint's folder. Raises UnknownModelError, BadGgufError, CheckpointStorageError,
    BadCheckpointError, and the errors of `headtail_models.assets.errors`."""
    published = _MODELS.get(name)
    if published is None:
        folder = Path(name)
        if not (folder / WEIGHTS).is_file():
            raise UnknownModelError(f"no model {name[:80]!r}; there are {', '.join(NAMES)}")
        return open_checkpoint(folder.name, folder)
    asset = find(published.asset)
    home = cache_dir or cache_home()
    folder = home / "llm" / f"{name}-{asset.sha256[:12]}-{LAYOUT}"
    if not folder.exists():
        files = fetch(published.asset, cache_dir=cache_dir, progress=progress)
        convert(files[published.file], folder)
    return open_checkpoint(name, folder)
