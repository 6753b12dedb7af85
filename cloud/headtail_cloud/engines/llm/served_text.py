"""A language model as a gateway sees it."""

from dataclasses import dataclass

from headtail_cloud.engines.llm.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedText:
    """`names`: the model's, then `model:adapter` for each adapter. `context`: positions of a text,
    prompt and answer."""

    names: tuple[str, ...]
    vocabulary: Vocabulary
    context: int
