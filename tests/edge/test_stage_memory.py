"""Which stages stay open when memory is short."""

from collections.abc import Mapping
from pathlib import Path

from headtail_edge.plan import plans_of
from headtail_edge.stage_memory import LazyStage, StageMemory
from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle


class Still:
    """A stage that does nothing."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {}


def stages(memory: StageMemory, *sizes: int, pinned: int = -1) -> list[LazyStage]:
    return [
        LazyStage(Still, memory=memory, size_bytes=size, pinned=number == pinned)
        for number, size in enumerate(sizes)
    ]


def open_ones(made: list[LazyStage]) -> list[int]:
    return [number for number, stage in enumerate(made) if stage.is_open]


def test_what_was_used_the_longest_ago_is_closed_first() -> None:
    memory = StageMemory(100)
    made = stages(memory, 40, 40, 40, 10)
    for number in (0, 1, 0, 2, 3):
        made[number].get()
    assert open_ones(made) == [0, 2, 3]
    assert (memory.used_bytes, memory.closed) == (90, 1)


def test_as_many_are_closed_as_it_takes() -> None:
    made = stages(StageMemory(100), 30, 30, 30, 80)
    for stage in made:
        stage.get()
    assert open_ones(made) == [3]


def test_the_one_in_use_stays_open_though_it_is_too_large() -> None:
    made = stages(StageMemory(100), 50, 500)
    for stage in made:
        stage.get()
    assert open_ones(made) == [1]
    made[0].get()
    assert open_ones(made) == [0]


def test_pinned_ones_are_never_closed() -> None:
    made = stages(StageMemory(100), 60, 60, 60, pinned=0)
    for stage in made:
        stage.get()
    assert open_ones(made) == [0, 2]


def test_who_has_a_stage_may_use_it_after_it_was_closed() -> None:
    made = stages(StageMemory(100), 80, 80)
    held = made[0].get()
    made[1].get()
    assert not made[0].is_open
    assert held.run({}) == {}


def test_without_a_limit_nothing_is_closed() -> None:
    made = stages(StageMemory(), 10**12, 10**12)
    for stage in made:
        stage.get()
    assert open_ones(made) == [0, 1]


def test_a_forgotten_stage_takes_nothing() -> None:
    memory = StageMemory(100)
    (stage,) = stages(memory, 70)
    stage.get()
    stage.forget()
    assert memory.used_bytes == 0
    assert repr(memory) == "<StageMemory 0 stages, 0 bytes>"


def test_a_stage_counts_with_its_own_file_and_the_weights(specimen: Bundle) -> None:
    sizes = {file.path: file.size_bytes for file in specimen.manifest.files}
    stage_files = {stage.file for stage in specimen.manifest.stages()}
    weights = sum(size for path, size in sizes.items() if path not in stage_files)
    for plan in plans_of(specimen, threads=1):
        if plan.key.cut == "late":
            own = sizes[str(Path(specimen.tail("late").file))]
            assert plan.stage.size_bytes == own + weights
