"""`headtail link` on the command line, with the proxy replaced."""

import argparse
import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from headtail.commands import link, run
from headtail.commands.run import NoLinkToEmulateError
from headtail_fabric.emulator import (
    PRESETS,
    LinkConditionsError,
    LinkTally,
    LinkTextError,
    LinkTrace,
    parse_link,
)
from headtail_fabric.emulator.address import LoopbackAddressError

TARGET = "tcp://127.0.0.1:5557"


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    link.add(parser.add_subparsers())
    return parser.parse_args(["link", *words])


class Proxy:
    """Stands in for the proxy, and is stopped at once."""

    def __init__(self, trace: LinkTrace, *, target: str, listen: str, seed: int) -> None:
        self.given = (trace, target, listen, seed)
        self.is_closed = False
        self.endpoint = "tcp://127.0.0.1:4711"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_closed = True

    def tally(self) -> LinkTally:
        assert self.is_closed
        return LinkTally(connections=1, open=0, bytes_up=2, bytes_down=3, stalls=4)


class Stop:
    """Stands in for the signals: there is one already."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.event.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> list[Proxy]:
    made: list[Proxy] = []

    def make(trace: LinkTrace, *, target: str, listen: str, seed: int) -> Proxy:
        made.append(Proxy(trace, target=target, listen=listen, seed=seed))
        return made[-1]

    monkeypatch.setattr(link, "LinkProxy", make)
    monkeypatch.setattr(link, "StopSignal", Stop)
    return made


def test_it_says_when_it_is_ready_and_what_it_is_like(
    proxies: list[Proxy], capsys: pytest.CaptureFixture[str]
) -> None:
    args = parse("--target", TARGET, "--conditions", "wifi-bad")
    assert args.handler(args) == 0
    assert args.log_level == "info"
    assert json.loads(capsys.readouterr().out) == {
        "event": "ready",
        "endpoint": "tcp://127.0.0.1:4711",
        "target": TARGET,
        "link": f"wifi-bad ({PRESETS['wifi-bad'].conditions})",
    }
    (proxy,) = proxies
    assert proxy.given == (parse_link("wifi-bad"), TARGET, "tcp://127.0.0.1:0", 0)
    assert proxy.is_closed


def test_options_reach_the_proxy(proxies: list[Proxy]) -> None:
    listen = "tcp://127.0.0.1:6000"
    words = ("--listen", listen, "--seed", "7", "--conditions", "rate=2mbit rtt=30ms")
    args = parse("--target", TARGET, *words)
    args.handler(args)
    assert proxies[0].given == (parse_link("rate=2mbit rtt=30ms"), TARGET, listen, 7)


@pytest.mark.parametrize(
    ("conditions", "error"),
    [("wifi-bda", LinkTextError), ("rtt=30", LinkTextError), ("loss=80%", LinkConditionsError)],
)
def test_conditions_that_make_no_sense(
    proxies: list[Proxy], conditions: str, error: type[Exception]
) -> None:
    args = parse("--target", TARGET, "--conditions", conditions)
    with pytest.raises(error):
        args.handler(args)
    assert proxies == []


def test_a_target_elsewhere_is_refused() -> None:
    args = parse("--target", "tcp://192.168.1.5:5557", "--conditions", "lte")
    with pytest.raises(LoopbackAddressError, match=r"192\.168\.1\.5"):
        args.handler(args)


@pytest.mark.parametrize("words", [("--target", TARGET), ("--conditions", "lte")])
def test_what_is_missing_is_wrong_usage(words: tuple[str, str]) -> None:
    with pytest.raises(SystemExit):
        parse(*words)


def test_the_help_lists_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    assert all(name in shown for name in PRESETS)


# `headtail run --link`: what needs no processes


def run_with(*words: str) -> None:
    parser = argparse.ArgumentParser()
    run.add(parser.add_subparsers())
    args = parser.parse_args(["run", *words])
    args.handler(args)


@pytest.mark.parametrize("words", [("--edge", "tcp://192.168.1.5:5557"), ("--mode", "local")])
def test_a_run_without_an_edge_of_its_own_has_no_link(
    words: tuple[str, str], tmp_path: Path
) -> None:
    given = ("--source", "clip.mp4", "--bundle", "b", "--out", str(tmp_path), "--link", "lte")
    with pytest.raises(NoLinkToEmulateError, match="lte") as caught:
        run_with(*given, *words)
    assert "headtail link" in caught.value.advice


def test_a_run_with_a_link_that_makes_no_sense_makes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(LinkTextError, match="did you mean lte"):
        run_with("--link", "ltee", "--out", str(out))
    assert not out.exists()
