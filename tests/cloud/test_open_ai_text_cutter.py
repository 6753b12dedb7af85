"""Stop strings, however the tokens cut them."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.engines.llm.vocabulary import Message
from headtail_cloud.open_ai.text_cutter import StopAtStrings, TextCutter


class Bytes:
    """A vocabulary of bytes."""

    end_tokens = frozenset({256})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def bytes_of(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def conversation(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()
    ) -> str:
        return ""


LETTERS = st.text(alphabet="abé", max_size=30)


@given(LETTERS, st.lists(st.text(alphabet="abé", min_size=1, max_size=4), max_size=3))
def test_what_is_shown_is_the_text_before_the_first_stop(text: str, stops: list[str]) -> None:
    cutter = TextCutter(Bytes(), stops)
    policy = StopAtStrings(Bytes(), stops)
    shown = ""
    for token in Bytes().encode(text):
        shown += cutter.feed(token)
        assert text.startswith(shown)
        assert policy.observe(Evidence(token=token)) == cutter.stopped
        if cutter.stopped:
            break
    shown += cutter.end()
    places = [at for stop in stops if (at := text.find(stop)) >= 0]
    # The first stop that is complete wins, as the text is cut when it is.
    if not places:
        assert (shown, cutter.stopped) == (text, False)
    else:
        assert cutter.stopped
        assert not any(stop in shown for stop in stops)
        assert any(text.startswith(shown + stop) for stop in stops)


def test_a_beginning_of_a_stop_is_held_back() -> None:
    cutter = TextCutter(Bytes(), ["END"])
    assert [cutter.feed(ord(letter)) for letter in "xENy"] == ["x", "", "", "ENy"]
    assert cutter.feed(ord("E")) == ""
    assert cutter.end() == "E"


def test_nothing_comes_after_a_stop() -> None:
    cutter = TextCutter(Bytes(), ["b"])
    assert [cutter.feed(ord(letter)) for letter in "abc"] == ["a", "", ""]
    assert cutter.end() == ""
    assert repr(cutter) == "<TextCutter stopped, holds 0>"
