import argparse
import json

import pytest

from headtail.commands import top
from headtail.top.keyboard import Keyboard
from headtail.top.scrape import Address, BadTargetError, Scraper, parse_address
from headtail_fabric.clock import FakeClock


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9101", Address(host="127.0.0.1", port=9101)),
        ("edge-1:9101", Address(host="edge-1", port=9101)),
        ("http://edge-1:9101/", Address(host="edge-1", port=9101)),
        ("http://[::1]:9101/other", Address(host="::1", port=9101, path="/other")),
    ],
)
def test_targets(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "edge-1", "https://edge-1:9101", "edge:99999", "99999", "[:1"]
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(BadTargetError):
        parse_address(text)


def test_an_address_is_shown_as_it_is_written() -> None:
    assert str(parse_address("http://[::1]:9101")) == "[::1]:9101"


def test_a_target_that_is_not_there_is_told_and_ends_in_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keyboard, "wait", lambda self, seconds: "")

    def refuse(address: Address) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("headtail.top.scrape._get", refuse)
    scraper = Scraper((parse_address("9101"),), clock=FakeClock())
    assert [scrape.problem for scrape in scraper.look()] == ["Connection refused"]
    scraper.close()

    parser = argparse.ArgumentParser()
    top.add(parser.add_subparsers())
    args = parser.parse_args(["top", "9101", "--once", "--json"])
    assert args.handler(args) == 1
    (line,) = capsys.readouterr().out.splitlines()
    (target,) = json.loads(line)["targets"]
    assert target == {
        "kind": "unreachable",
        "target": "127.0.0.1:9101",
        "problem": "Connection refused",
    }


@pytest.mark.parametrize("seconds", ["0", "1e9", "nan"])
def test_the_pause_has_limits(seconds: str) -> None:

    parser = argparse.ArgumentParser()
    top.add(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["top", "9101", "--every", seconds])
