"""A text's tokens as they come: what of it may be shown, and where it stops."""

from collections.abc import Sequence

from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.engines.llm.vocabulary import Detokeniser, Vocabulary


class TextCutter:
    """Cuts before the first of some strings. What may be the beginning of one is held back until
    it is not, or the text ends."""

    def __init__(self, vocabulary: Vocabulary, stops: Sequence[str]) -> None:
        self._detokeniser = Detokeniser(vocabulary)
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def __repr__(self) -> str:
        return f"<TextCutter {'stopped' if self.stopped else 'open'}, holds {len(self._held)}>"

    def feed(self, token: int) -> str:
        """What may be shown now."""
        return self._cut(self._detokeniser.feed(token))

    def end(self) -> str:
        """The rest, when no token comes any more."""
        shown = self._cut(self._detokeniser.end())
        if self.stopped:
            return shown
        shown, self._held = shown + self._held, ""
        return shown

    def _cut(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        places = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            self.stopped, self._held = True, ""
            return text[: min(places)]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


class StopAtStrings:
    """An `ExitPolicy`: ends a text in the iteration in which it says one of some strings."""

    def __init__(self, vocabulary: Vocabulary, stops: Sequence[str]) -> None:
        self._cutter = TextCutter(vocabulary, stops)

    def observe(self, evidence: Evidence) -> bool:
        if evidence.token is not None:
            self._cutter.feed(evidence.token)
        return self._cutter.stopped


def _overlap(text: str, stop: str) -> int:
    """How much of the end of `text` is a beginning of `stop`."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
