"""The flags of `headtail edge` and what they become."""

import argparse
import os
import threading
from pathlib import Path

import pytest

from headtail.commands import edge
from headtail_edge import daemon
from headtail_edge.config import EdgeConfig
from headtail_fabric import config
from headtail_fabric.config import BadValueError


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    edge.add(parser.add_subparsers())
    return parser.parse_args(["edge", "serve", *words])


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[EdgeConfig]:
    """The settings that edges were started with, in place of the edges."""
    seen: list[EdgeConfig] = []

    def serve(settings: EdgeConfig, *, stop: threading.Event) -> None:
        assert not stop.is_set()
        seen.append(settings)

    monkeypatch.setattr(daemon, "serve", serve)
    return seen


def test_flags_win_over_the_file_and_the_file_over_defaults(
    served: list[EdgeConfig], tmp_path: Path
) -> None:
    file = tmp_path / "edge.toml"
    file.write_text("workers = 3\nmax_batch = 2\n")
    flags = ("--config", str(file), "--workers", "5", "--bundle", "a", "--bundle", "b")
    args = parse(*flags, "--accept-bundles", "everyone", "--bind", "tcp://127.0.0.1:0")
    assert args.handler(args) == 0
    (settings,) = served
    assert (settings.workers, settings.max_batch) == (5, 2)
    assert settings.bundles == ("a", "b")
    assert settings.push.accept_from == "everyone"
    assert settings.bind == "tcp://127.0.0.1:0"
    assert settings.queue_limit == EdgeConfig().queue_limit


def test_every_flag_is_a_setting(served: list[EdgeConfig]) -> None:
    words = ("--name", "e", "--threads", "1", "--max-batch", "4", "--metrics-port", "0")
    paths = ("--key", "k", "--allow", "a", "--trust", "t.pub", "--trust", "u.pub")
    args = parse(*words, *paths)
    args.handler(args)
    assert served == [
        EdgeConfig(
            name="e",
            threads=1,
            max_batch=4,
            metrics_port=0,
            key=Path("k"),
            allow_list=Path("a"),
            trusted=(Path("t.pub"), Path("u.pub")),
        )
    ]


def test_without_flags_it_runs_on_the_defaults(served: list[EdgeConfig]) -> None:
    args = parse()
    args.handler(args)
    assert served == [EdgeConfig()]
    assert args.log_level == "info"


def test_a_value_out_of_range_is_blamed_on_the_command_line(served: list[EdgeConfig]) -> None:
    args = parse("--workers", "0")
    with pytest.raises(BadValueError, match="command line: workers"):
        args.handler(args)
    assert served == []


def test_print_config_prints_a_file_to_begin_with(
    served: list[EdgeConfig], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = parse("--print-config")
    assert args.handler(args) == 0
    file = tmp_path / "edge.toml"
    file.write_text(capsys.readouterr().out)
    assert config.load(EdgeConfig, file) == EdgeConfig()
    assert served == []


def test_the_end_of_its_input_stops_it_if_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    stopped: list[bool] = []

    def serve(settings: EdgeConfig, *, stop: threading.Event) -> None:
        os.write(writer, b"whatever")
        assert not stop.is_set()
        os.close(writer)
        stopped.append(stop.wait(10.0))

    monkeypatch.setattr(daemon, "serve", serve)
    with open(reader) as stream:  # noqa: PTH123 - a pipe has no path
        monkeypatch.setattr("sys.stdin", stream)
        args = parse("--stop-on-eof")
        args.handler(args)
    assert stopped == [True]


def test_an_action_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    edge.add(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["edge"])
    assert "ACTION" in capsys.readouterr().err
