"""Progress bars: nothing before the first step, whole at the end, stopped by an error."""

import io

import pytest
from rich.console import Console

from headtail_models.assets.progress import Bars


def _console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=100, force_terminal=False), out


def test_nothing_happens_nothing_is_shown() -> None:
    console, out = _console()
    with Bars(console) as bars:
        bars.advance(10)
    assert out.getvalue() == ""


def test_steps_end_whole() -> None:
    console, out = _console()
    with Bars(console) as bars:
        bars.begin("first", total_bytes=2_000_000, done_bytes=500_000)
        bars.advance(1_000_000)
        bars.begin("second")
        bars.advance(10)
    assert "first" in out.getvalue()
    assert "2.0/2.0 MB" in out.getvalue()
    assert "second" in out.getvalue()


def test_an_error_leaves_the_bar_where_it_was() -> None:
    def broken() -> None:
        with Bars(console) as bars:
            bars.begin("first", total_bytes=2_000_000)
            bars.advance(1_000_000)
            raise RuntimeError

    console, out = _console()
    with pytest.raises(RuntimeError):
        broken()
    assert "1.0/2.0 MB" in out.getvalue()
