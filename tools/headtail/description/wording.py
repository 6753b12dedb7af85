"""What a small model is asked, and what can be checked of what it says."""

import re
from collections.abc import Sequence
from typing import Final

from headtail.description.facts import Facts

_SHOWN: Final = 4
"""Labels that it is told of: with more, and with times, a small model mixes them up."""

_ASKED: Final = "Describe the scene in two plain sentences, and add nothing."
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_COUNTS: Final = "one two three four five six seven eight nine ten eleven twelve"
_WORDS: Final = {word: str(number) for number, word in enumerate(_COUNTS.split(), 1)}


def messages(facts: Facts) -> list[dict[str, str]]:
    """The conversation that a report is the next turn of."""
    seen = ", ".join(f"up to {one.most} {one.label}" for one in facts.sightings[:_SHOWN])
    length = "" if facts.seconds is None else f" for {facts.seconds:.0f} seconds"
    told = f"A camera recorded this{length}: {seen or 'nothing that was recognised'}."
    return [{"role": "user", "content": f"{told} {_ASKED}"}]


def invented(report: str, facts: Facts) -> list[str]:
    """Numbers of a report that stand in none of the facts, each once, in their order."""
    given = set(_numbers(facts.sentences()))
    return list(dict.fromkeys(number for number in _numbers([report]) if number not in given))


def _numbers(texts: Sequence[str]) -> list[str]:
    found: list[str] = []
    for text in texts:
        for word in re.findall(r"[A-Za-z]+|\d+(?:\.\d+)?", text):
            if _NUMBER.fullmatch(word):
                found.append(word)
            elif word.lower() in _WORDS:
                found.append(_WORDS[word.lower()])
    return found
