"""The engine behind the scheduler's seam, and under the scheduler itself."""

import itertools
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headtail_cloud.core.actions import EmitToken, Finish, Outcome, StartStep
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity, StateError, StateRef
from headtail_cloud.core.events import RequestArrived, StepFinished
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment, TextRequest
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import (
    DecodeStep,
    Fault,
    PrefillChunk,
    TailItem,
    TailOutput,
    Task,
    TaskFailed,
    TextOutput,
)
from headtail_cloud.core.work import Work
from headtail_cloud.engines.joint import JointEngine
from headtail_cloud.engines.llm.adapters import Adapter
from headtail_cloud.engines.llm.checkpoint import Checkpoint
from headtail_cloud.engines.llm.choice import choose
from headtail_cloud.engines.llm.engine import LlmEngine, LlmOptions, options_for
from headtail_cloud.engines.llm.sampling import Chosen, Sampling
from headtail_cloud.engines.modelled import ModelledEngine
from tiny_llama import SHAPE, tiny_checkpoint

GREEDY = {"temperature": 0}
PROMPTS = {f"r{n}": tuple((5 * n + 11 * at) % 256 for at in range(3 + 9 * n)) for n in range(6)}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("llm") / "tiny")


def engine(tiny: Checkpoint, **options: Any) -> LlmEngine:
    chosen = LlmOptions(**{"max_batch": 4, "block_tokens": 8, "blocks": 40, **options})
    ticks = itertools.count()
    return LlmEngine(tiny, options=chosen, timer=lambda: float(next(ticks)))


@pytest.fixture(scope="module")
def expected(tiny: Checkpoint) -> dict[str, list[int]]:
    """Twelve greedy tokens after each prompt, as `transformers` says them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("transformers")
        from headtail.bench.cloud.twin import in_transformers

        model = in_transformers(tiny)
        with torch.inference_mode():
            return {name: greedy(model, prompt) for name, prompt in PROMPTS.items()}


def greedy(model: Any, prompt: tuple[int, ...]) -> list[int]:
    tokens = torch.tensor([prompt])
    said: list[int] = model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=12, do_sample=False
    )[0].tolist()
    return said[len(prompt) :]


def texts(
    served: LlmEngine, requests: Iterable[TextRequest], options: SchedulerOptions | None = None
) -> dict[str, list[int]]:
    """What each is told, run to its end under a scheduler."""
    scheduler = Scheduler(served.capacity(), CostModel(served.estimate), options)
    said: dict[str, list[int]] = {}
    todo: list[Any] = []
    now = 0.0
    for request in requests:
        todo += scheduler.on_event(RequestArrived(request=request), now)
    while todo:
        action = todo.pop(0)
        now += 1e-3
        match action:
            case StartStep(step=step):
                done = StepFinished(step_id=step.id, results=served.step(step.tasks), took_s=1e-3)
                todo += scheduler.on_event(done, now)
            case EmitToken(request_id=name, token=token):
                said.setdefault(name, []).append(token)
            case Finish(outcome=outcome, message=message):
                assert outcome is Outcome.DONE, message
    return said


def request(name: str, **more: Any) -> TextRequest:
    return TextRequest(
        **{
            "id": name,
            "tenant": "t",
            "model": "tiny",
            "prompt": PROMPTS[name],
            "max_tokens": 12,
            "ttft_s": 1e6,
            "tbt_s": 1e6,
            "input": GREEDY,
            **more,
        }
    )


@pytest.mark.parametrize("token_budget", [None, 7, 16])
@pytest.mark.parametrize("blocks", [40, 16])
def test_greedy_texts_are_those_of_transformers(
    tiny: Checkpoint, expected: dict[str, list[int]], token_budget: int | None, blocks: int
) -> None:
    """In batches of four, in chunks, and, with few blocks, with some computed twice."""
    options = SchedulerOptions(token_budget=token_budget, smallest_chunk=3)
    found = texts(engine(tiny, blocks=blocks), map(request, PROMPTS), options)
    assert found == expected


def test_a_shared_beginning_is_not_computed_again(
    tiny: Checkpoint, expected: dict[str, list[int]]
) -> None:
    served = engine(tiny)
    computed: list[int] = []
    step = served.step

    def counting(tasks: Any) -> Any:
        computed.append(sum(len(t.tokens) for t in tasks if isinstance(t, PrefillChunk)))
        return step(tasks)

    served.step = counting  # type: ignore[method-assign]
    found = texts(
        served, [request("r5"), request("r5", id="again")], SchedulerOptions(token_budget=48)
    )
    assert found["r5"] == found["again"] == expected["r5"]
    assert sum(computed) <= 2 * len(PROMPTS["r5"]) - 16


def prefill(name: str, at: tuple[int, ...], **more: Any) -> PrefillChunk:
    return PrefillChunk(
        **{
            "request_id": name,
            "model": "tiny",
            "tokens": PROMPTS[name],
            "start": 0,
            "blocks": at,
            "last": True,
            "input": GREEDY,
            **more,
        }
    )


def token_of(served: LlmEngine, task: Task) -> int:
    (result,) = served.step([task])
    assert isinstance(result, TextOutput)
    assert result.token is not None
    return result.token


def test_a_text_goes_on_in_another_engine(tiny: Checkpoint, expected: dict[str, list[int]]) -> None:
    one, other = engine(tiny), engine(tiny)
    prompt, said = PROMPTS["r4"], expected["r4"]
    here, there = (3, 1, 8, 30, 12, 7, 20), (5, 6, 0, 9, 2, 4, 33)
    assert token_of(one, prefill("r4", here)) == said[0]
    data = one.export(StateRef(blocks=here, positions=len(prompt)))
    assert len(data) == 28 + len(prompt) * SHAPE.kv_bytes()
    other.import_(StateRef(blocks=there, positions=len(prompt)), data)
    for at, token in enumerate(said[:-1]):
        step = DecodeStep(
            request_id="r4",
            model="tiny",
            token=token,
            position=len(prompt) + at,
            blocks=there,
            input=GREEDY,
        )
        assert token_of(other, step) == said[at + 1]


def test_a_state_of_another_model_is_refused(tiny: Checkpoint, tmp_path: Path) -> None:
    served = engine(tiny)
    state = StateRef(blocks=(0, 1), positions=9)
    data = served.export(state)
    stranger = engine(tiny_checkpoint(tmp_path / "tiny", seed=1))
    not_a_number = data[:-4] + b"\xff\xff\xff\x7f"
    for wrong in (data[:20], data[:-4], b"", data + b"1234", not_a_number):
        with pytest.raises(StateError):
            served.import_(state, wrong)
    with pytest.raises(StateError, match="another model"):
        stranger.import_(state, data)
    with pytest.raises(StateError, match="other positions"):
        served.import_(StateRef(blocks=(0, 1), positions=10), data)
    with pytest.raises(StateError, match="positions in"):
        served.export(StateRef(blocks=(0, 99), positions=9))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model": "gpt"}, Fault.ENGINE),
        ({"tokens": (260,)}, Fault.INPUT),
        ({"tokens": (-1,)}, Fault.INPUT),
        ({"blocks": (0,)}, Fault.INPUT),
        ({"blocks": (0, 1, 2, 400)}, Fault.INPUT),
        ({"start": 120, "blocks": tuple(range(20))}, Fault.INPUT),
        ({"input": {"temperature": -3}}, Fault.INPUT),
        ({"input": "hot"}, Fault.INPUT),
    ],
)
def test_a_bad_task_fails_alone(
    tiny: Checkpoint, expected: dict[str, list[int]], change: dict[str, Any], fault: Fault
) -> None:
    served = engine(tiny)
    bad = prefill("r2", (20, 21, 22), **change)
    results = {r.request_id: r for r in served.step([bad, prefill("r1", (0, 1))])}
    failed, good = results["r2"], results["r1"]
    assert isinstance(failed, TaskFailed)
    assert failed.fault is fault
    assert isinstance(good, TextOutput)
    assert good.token == expected["r1"][0]


def test_probabilities_come_with_tokens_where_they_are_asked_for(tiny: Checkpoint) -> None:
    served = engine(tiny)
    (plain,) = served.step([prefill("r1", (0, 1))])
    (told,) = served.step([prefill("r1", (0, 1), input={"temperature": 0, "alternatives": 3})])
    assert isinstance(plain, TextOutput)
    assert isinstance(told, TextOutput)
    assert (plain.output, plain.token) == (None, told.token)
    assert isinstance(told.output, dict)
    top = told.output["top"]
    assert [told.token, told.output["logprob"]] == list(top[0])
    assert len(top) == 3
    assert top[0][1] >= top[1][1] >= top[2][1]


def test_an_embedding_is_the_hidden_state_after_a_text(tiny: Checkpoint) -> None:
    served = engine(tiny)
    whole, *parts = (
        served.step([prefill("r3", (0, 1, 2, 3), input={"embed": True}, **more)])[0]
        for more in (
            {},
            {"tokens": PROMPTS["r3"][:20], "last": False},
            {"tokens": PROMPTS["r3"][20:], "start": 20},
        )
    )
    assert isinstance(whole, TextOutput)
    assert isinstance(parts[1], TextOutput)
    assert isinstance(whole.output, np.ndarray)
    assert isinstance(parts[1].output, np.ndarray)
    assert whole.output.shape == (SHAPE.width,)
    np.testing.assert_allclose(whole.output, parts[1].output, atol=1e-5)
    assert parts[0] == TextOutput(request_id="r3")


def test_models_are_the_base_and_its_adapters(tiny: Checkpoint) -> None:
    served = LlmEngine(tiny, options=LlmOptions(blocks=8), adapters=[Adapter(name="a", deltas={})])
    assert served.models == ("tiny", "tiny:a")
    assert token_of(served, prefill("r1", (0, 1, 2), model="tiny:a")) == token_of(
        served, prefill("r1", (3, 4, 5))
    )


def test_its_estimate_is_what_warming_up_took(tiny: Checkpoint) -> None:
    served = engine(tiny)  # each measurement takes one tick of the clock
    assert served.estimate(Work(decodes=1)) == pytest.approx(1.0)
    assert served.estimate(Work(decodes=4)) == pytest.approx(1.0)
    assert served.estimate(Work(decodes=1, context_tokens=10)) > served.estimate(Work(decodes=1))
    assert served.estimate(Work()) == 0.0


def test_blocks_are_as_many_as_the_memory_holds(tiny: Checkpoint) -> None:
    size = 16 * SHAPE.kv_bytes()
    assert options_for(tiny, kv_mb=10.5 * size / (1 << 20), max_batch=4).blocks == 10
    assert options_for(tiny, kv_mb=1000, max_batch=4).blocks == 4 * 8
    assert options_for(tiny, kv_mb=1e-9, max_batch=4).blocks == 1


def test_tails_and_texts_share_an_iteration(
    tiny: Checkpoint, expected: dict[str, list[int]]
) -> None:
    llm = engine(tiny)
    joint = JointEngine(ModelledEngine(limits=Capacity(max_batch=9)), llm)
    segment = Segment("m", "tail")
    tail = TailItem(request_id="tail", segment=segment, input=1)
    results = {r.request_id: r for r in joint.step([prefill("r1", (0, 1)), tail])}
    assert isinstance(results["tail"], TailOutput)
    text = results["r1"]
    assert isinstance(text, TextOutput)
    assert text.token == expected["r1"][0]
    assert joint.step([tail])[0].request_id == "tail"
    assert joint.capacity() == Capacity(max_batch=9, blocks=40, block_tokens=8)
    both = joint.estimate(Work(decodes=1, items={segment: 1}))
    assert both == pytest.approx(
        ModelledEngine(limits=Capacity(max_batch=9)).estimate(Work(items={segment: 1}))
        + llm.estimate(Work(decodes=1))
    )
    state = StateRef(blocks=(0,), positions=3)
    joint.import_(state, joint.export(state))


def distribution(sampling: Sampling, logits: torch.Tensor, draws: int = 4000) -> torch.Tensor:
    counts = torch.zeros(len(logits))
    for position in range(draws):
        counts[choose(logits, sampling, position).token] += 1
    return counts / draws


def test_draws_follow_temperature_and_nucleus() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    found = distribution(Sampling(temperature=0.5), logits)
    torch.testing.assert_close(found, torch.softmax(logits / 0.5, 0), atol=0.03, rtol=0)
    found = distribution(Sampling(top_p=0.8, seed=1), logits)
    kept = torch.softmax(logits[:2], 0)
    torch.testing.assert_close(found[:2], kept, atol=0.03, rtol=0)
    assert found[2:].sum() == 0


def test_a_wide_nucleus_is_found_among_all() -> None:
    logits = torch.zeros(3000)
    drawn = {choose(logits, Sampling(top_p=0.9, seed=3), at).token for at in range(3000)}
    assert 1500 < len(drawn) <= 2700


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    logits = torch.randn(300, generator=torch.Generator().manual_seed(0))
    one = [choose(logits, Sampling(seed=5), at).token for at in range(20)]
    assert one == [choose(logits.clone(), Sampling(seed=5), at).token for at in range(20)]
    assert one != [choose(logits, Sampling(seed=6), at).token for at in range(20)]


def test_bias_moves_the_choice_and_leaves_the_logits() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0])
    chosen = choose(logits, Sampling(temperature=0, bias={0: 5.0, 99: 100.0}), 0)
    assert chosen == Chosen(token=0)
    assert logits.tolist() == [0.0, 1.0, 2.0]
