import pytest

from cloud_doubles import said
from headtail_cloud.core.engine import Capacity, StateError, StateRef
from headtail_cloud.core.task import DecodeStep, PrefillChunk, TaskResult, TextOutput
from headtail_cloud.core.work import Work
from headtail_cloud.engines.modelled import ModelledEngine, Prices

LIMITS = Capacity(max_batch=2, blocks=8, block_tokens=2)


def chunk(tokens: tuple[int, ...], *, start: int, blocks: tuple[int, ...]) -> PrefillChunk:
    return PrefillChunk(
        request_id="t", model="lm@1", tokens=tokens, start=start, blocks=blocks, last=True
    )


def token_of(results: list[TaskResult]) -> int | None:
    (result,) = results
    assert isinstance(result, TextOutput)
    return result.token


def test_chunks_and_decodes_give_what_the_whole_gives() -> None:
    engine = ModelledEngine(limits=LIMITS)
    engine.step([chunk((1, 2, 3), start=0, blocks=(5, 0))])
    token = token_of(engine.step([chunk((4, 5), start=3, blocks=(5, 0, 7))]))
    assert [token] == said([1, 2, 3, 4, 5], 1)
    assert token is not None
    step = DecodeStep(request_id="t", model="lm@1", token=token, position=5, blocks=(5, 0, 7))
    assert [token, token_of(engine.step([step]))] == said([1, 2, 3, 4, 5], 2)


def test_a_sequence_moves_between_engines() -> None:
    here, there = ModelledEngine(limits=LIMITS), ModelledEngine(limits=LIMITS)
    here.step([chunk((1, 2, 3), start=0, blocks=(0, 1))])
    data = here.export(StateRef(blocks=(0, 1), positions=3))
    there.import_(StateRef(blocks=(6, 4), positions=3), data)
    step = DecodeStep(request_id="t", model="lm@1", token=9, position=3, blocks=(6, 4))
    assert [token_of(there.step([step]))] == said([1, 2, 3, 9], 1)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]"])
def test_refuses_a_state_that_is_not_its_own(data: bytes) -> None:
    with pytest.raises(StateError):
        ModelledEngine(limits=LIMITS).import_(StateRef(blocks=(0,), positions=2), data)


def test_refuses_positions_outside_the_blocks() -> None:
    with pytest.raises(StateError, match="3 positions in 1 blocks"):
        ModelledEngine(limits=LIMITS).export(StateRef(blocks=(0,), positions=3))


def test_prices_are_linear() -> None:
    prices = Prices(context_s=0.001)
    one = prices.of(Work(prefill_tokens=2, decodes=1, context_tokens=3)) - prices.of(Work())
    two = prices.of(Work(prefill_tokens=4, decodes=2, context_tokens=6)) - prices.of(Work())
    assert two == pytest.approx(2 * one)
