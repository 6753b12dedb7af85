"""From what an operator writes to an engine that is ready to run."""

from collections.abc import Mapping
from pathlib import Path

from headtail_cloud.engines.llm import model_store
from headtail_cloud.engines.llm.adapters import Adapter, load_adapter
from headtail_cloud.engines.llm.checkpoint import Checkpoint
from headtail_cloud.engines.llm.engine import LlmEngine, options_for
from headtail_cloud.engines.llm.served_text import ServedText
from headtail_cloud.runtime.engine_spec import LoadedEngine


def describe_llm(
    model: str, *, adapters: Mapping[str, Path] | None = None, cache_dir: Path | None = None
) -> ServedText:
    """A model that runs elsewhere. Its adapters are read, so that a bad one is known before
    anything is started. Raises BadAdapterError and what `model_store.checkpoint` does."""
    checkpoint = model_store.checkpoint(model, cache_dir=cache_dir)
    _loaded(adapters or {}, checkpoint)
    return _served(checkpoint, adapters or {})


def load_llm(
    model: str,
    *,
    adapters: Mapping[str, Path] | None = None,
    cache_dir: Path | None = None,
    kv_mb: float = 512,
    max_batch: int = 16,
    packed: bool = True,
) -> tuple[LlmEngine, ServedText]:
    """The engine, and what it serves. Raises BadAdapterError and what `model_store.checkpoint`
    does."""
    checkpoint = model_store.checkpoint(model, cache_dir=cache_dir)
    engine = LlmEngine(
        checkpoint,
        options=options_for(checkpoint, kv_mb=kv_mb, max_batch=max_batch, packed=packed),
        adapters=_loaded(adapters or {}, checkpoint),
    )
    return engine, _served(checkpoint, adapters or {})


def llm_engine(
    *,
    model: str,
    adapters: Mapping[str, str] | None = None,
    cache_dir: str | None = None,
    kv_mb: float = 512,
    max_batch: int = 16,
    packed: bool = False,
) -> LoadedEngine:
    """A worker's factory (`EngineSpec`): weights are mapped, so that workers share them, unless
    they are to be packed. Raises what `load_llm` does."""
    engine, _ = load_llm(
        model,
        adapters={name: Path(folder) for name, folder in (adapters or {}).items()},
        cache_dir=Path(cache_dir) if cache_dir else None,
        kv_mb=kv_mb,
        max_batch=max_batch,
        packed=packed,
    )
    return LoadedEngine(engine=engine)


def _loaded(adapters: Mapping[str, Path], checkpoint: Checkpoint) -> list[Adapter]:
    return [load_adapter(name, folder, checkpoint.shape) for name, folder in adapters.items()]


def _served(checkpoint: Checkpoint, adapters: Mapping[str, Path]) -> ServedText:
    return ServedText(
        names=(checkpoint.name, *(f"{checkpoint.name}:{name}" for name in adapters)),
        vocabulary=checkpoint.tokeniser,
        context=checkpoint.shape.context,
    )
