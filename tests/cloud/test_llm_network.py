"""The network against `transformers`, and against itself in other batches, chunks and parts."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headtail_cloud.core.task import PrefillChunk
from headtail_cloud.engines.llm.adapters import (
    Adapter,
    BadAdapterError,
    load_adapter,
    neighbouring,
)
from headtail_cloud.engines.llm.batching import Piece, batch_of
from headtail_cloud.engines.llm.checkpoint import Checkpoint
from headtail_cloud.engines.llm.network import LlamaNetwork
from headtail_cloud.engines.llm.paged_cache import PagedCache
from headtail_cloud.engines.llm.sampling import Sampling
from tiny_llama import SHAPE, tiny_checkpoint, write_adapter

TEXT = tuple((7 * at + 3) % 256 for at in range(50))
SCATTERED = (9, 2, 17, 5, 0, 11, 30, 3)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("llm") / "tiny")


@pytest.fixture(scope="module")
def expected(tiny: Checkpoint) -> torch.Tensor:
    """(positions, vocabulary) of TEXT, as `transformers` has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("transformers")
        from headtail.bench.cloud.twin import in_transformers

        with torch.inference_mode():
            logits: torch.Tensor = in_transformers(tiny)(torch.tensor([TEXT])).logits[0]
    return logits


@pytest.fixture
def cache(tiny: Checkpoint) -> PagedCache:
    return PagedCache(SHAPE, blocks=32, block_tokens=8, digest=tiny.digest)


def piece(
    cache: PagedCache,
    tokens: Sequence[int],
    start: int,
    blocks: Sequence[int],
    adapter: Adapter | None = None,
) -> Piece:
    task = PrefillChunk(
        request_id="r",
        model="tiny",
        tokens=tuple(tokens),
        start=start,
        blocks=tuple(blocks),
        last=True,
    )
    return Piece(
        task=task,
        tokens=task.tokens,
        start=start,
        slots=cache.slots(blocks, start, len(tokens)),
        sampling=Sampling(),
        adapter=adapter,
        last=True,
    )


def logits(network: LlamaNetwork, cache: PagedCache, *pieces: Piece) -> torch.Tensor:
    """Of all rows."""
    with torch.inference_mode():
        tokens = torch.tensor([token for one in pieces for token in one.tokens])
        hidden = network.forward(network.embed(tokens), batch_of(pieces, cache), cache)
        return network.logits(network.finish(hidden))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sizes", [(50,), (1, 20, 1, 28), (8, 8, 34), (1,) * 50])
def test_chunks_give_the_logits_of_transformers(
    tiny: Checkpoint,
    cache: PagedCache,
    expected: torch.Tensor,
    packed: bool,
    sizes: tuple[int, ...],
) -> None:
    network = LlamaNetwork(SHAPE, tiny.weights, packed=packed)
    rows, start = [], 0
    for size in sizes:
        chunk = piece(cache, TEXT[start : start + size], start, SCATTERED)
        rows.append(logits(network, cache, chunk))
        start += size
    torch.testing.assert_close(torch.cat(rows), expected, atol=1e-4, rtol=1e-4)


def test_a_text_is_the_same_in_any_company(
    tiny: Checkpoint, cache: PagedCache, expected: torch.Tensor
) -> None:
    """Decodes of many lengths and chunks, in one batch."""
    network = LlamaNetwork(SHAPE, tiny.weights, packed=True)
    tables = [(n, n + 8, n + 16, n + 24) for n in range(8)]
    ends = (1, 3, 9, 16, 17, 24, 25, 31)
    for table, end in zip(tables, ends, strict=True):
        logits(network, cache, piece(cache, TEXT[:end], 0, table))
    mixed = [
        piece(cache, TEXT[end : end + (5 if end == 9 else 1)], end, table)
        for table, end in zip(tables, ends, strict=True)
    ]
    found, row = logits(network, cache, *mixed), 0
    for one in mixed:
        rows = found[row : row + len(one.tokens)]
        torch.testing.assert_close(rows, expected[one.start : one.end], atol=1e-4, rtol=1e-4)
        row += len(rows)


@pytest.mark.parametrize("cut", [1, 2])
def test_a_network_may_be_split_at_any_layer(
    tiny: Checkpoint, cache: PagedCache, expected: torch.Tensor, cut: int
) -> None:
    head = LlamaNetwork(SHAPE, tiny.weights, end=cut)
    tail = LlamaNetwork(SHAPE, tiny.weights, first=cut)
    batch = batch_of([piece(cache, TEXT, 0, SCATTERED)], cache)
    with torch.inference_mode():
        crossing = head.forward(head.embed(torch.tensor(TEXT)), batch, cache)
        elsewhere = PagedCache(SHAPE, blocks=32, block_tokens=8, digest=tiny.digest)
        found = tail.logits(tail.finish(tail.forward(crossing, batch, elsewhere)))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="no head"):
        head.logits(crossing)
    with pytest.raises(ValueError, match="layers"):
        LlamaNetwork(SHAPE, tiny.weights, first=cut, end=cut)


def merged(tiny: Checkpoint, adapter: Adapter) -> dict[str, torch.Tensor]:
    weights = dict(tiny.weights)
    for (layer, part), delta in adapter.deltas.items():
        name = f"layers.{layer}.{part}"
        weights[name] = weights[name] + delta.down @ delta.up
    return weights


def test_adapters_of_one_batch_each_give_what_merging_them_would(
    tiny: Checkpoint, cache: PagedCache, tmp_path: Path
) -> None:
    network = LlamaNetwork(SHAPE, tiny.weights, packed=True)
    one, two = (
        load_adapter(f"a{seed}", write_adapter(tmp_path / f"a{seed}", seed), SHAPE)
        for seed in (1, 2)
    )
    tables = [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)]
    users = [None, one, one, two]
    pieces = [
        piece(cache, TEXT[at : at + 20], 0, table, adapter)
        for at, (table, adapter) in enumerate(zip(tables, users, strict=True))
    ]
    together = logits(network, cache, *pieces).chunk(len(pieces))
    for at, (found, adapter) in enumerate(zip(together, users, strict=True)):
        weights = tiny.weights if adapter is None else merged(tiny, adapter)
        alone = LlamaNetwork(SHAPE, weights)
        alone_cache = PagedCache(SHAPE, blocks=8, block_tokens=8, digest=b"")
        own = piece(alone_cache, TEXT[at : at + 20], 0, (0, 1, 2))
        torch.testing.assert_close(found, logits(alone, alone_cache, own), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(together[1][0], logits(network, cache, pieces[0])[1], atol=1e-2)


def test_an_adapter_s_queries_turn_as_the_base_s(tiny: Checkpoint, tmp_path: Path) -> None:
    """peft's rows are those of `transformers`, pairs half a head apart."""
    folder = write_adapter(tmp_path / "a", 3)

    raw = load_file(folder / "adapter_model.safetensors")
    place = "base_model.model.model.layers.0.self_attn.q_proj"
    theirs = raw[f"{place}.lora_B.weight"] @ raw[f"{place}.lora_A.weight"] * 2
    delta = load_adapter("a", folder, SHAPE).deltas[0, "qkv"]
    ours = (delta.down @ delta.up)[:, : SHAPE.query_width]
    torch.testing.assert_close(ours, neighbouring(theirs, SHAPE.head_width).T)
    half = SHAPE.head_width // 2
    torch.testing.assert_close(ours[:, 0], theirs[0])
    torch.testing.assert_close(ours[:, 1], theirs[half])


def test_adapters_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadAdapterError):
        load_adapter("none", tmp_path, SHAPE)
    with pytest.raises(BadAdapterError, match="DoRA"):
        load_adapter("d", write_adapter(tmp_path / "d", 1, use_dora=True), SHAPE)
    folder = write_adapter(tmp_path / "s", 1)
    save_file({"base_model.model.lm_head.lora_A.weight": torch.zeros(4, 32)}, folder / "x")
    (folder / "x").replace(folder / "adapter_model.safetensors")
    with pytest.raises(BadAdapterError, match="no place"):
        load_adapter("s", folder, SHAPE)
