import argparse
import importlib
import logging
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import headtail
from headtail import cli
from headtail_fabric.errors import ConfigError

Handler = Callable[[argparse.Namespace], int]
Install = Callable[..., None]


class ProbeError(ConfigError):
    """The probe was lost in a place that takes quite a few words to describe, so many that the
    advice needs more lines than one; look there with `headtail probe deep --again-and-again`."""


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes `headtail probe deep` do what a handler does."""

    def install(handler: Handler, **defaults: object) -> None:
        def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
            parser = subparsers.add_parser("probe", help="look about", epilog="a\n  b")
            deep = parser.add_subparsers(required=True).add_parser("deep")
            deep.set_defaults(handler=handler, **defaults)

        module = ModuleType("headtail.commands.probe")
        module.__dict__["add"] = add
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(cli, "COMMANDS", (cli.Command("probe", "look about"),))

    return install


def test_a_handler_gets_its_arguments_and_gives_the_status(probe: Install) -> None:
    probe(lambda args: 7 if args.extra == "here" else 8, extra="here")
    assert cli.main(["probe", "deep"]) == 7


def test_a_known_error_prints_its_message_and_its_advice(
    probe: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(args: argparse.Namespace) -> int:
        raise ProbeError("probe lost at \x1b[31m3 m\nbelow")

    monkeypatch.setenv("COLUMNS", "60")
    probe(lose)
    assert cli.main(["probe", "deep"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "headtail: probe lost at \\u001b[31m3 m\\nbelow\n"
        "  The probe was lost in a place that takes quite a few words\n"
        "  to describe, so many that the advice needs more lines than\n"
        "  one; look there with `headtail probe deep\n"
        "  --again-and-again`.\n"
    )


def test_a_known_error_has_its_traceback_in_the_debug_log(
    probe: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose(args: argparse.Namespace) -> int:
        raise ProbeError("lost")

    probe(lose)
    assert cli.main(["-vv", "--log-format", "json", "probe", "deep"]) == 1
    log, message, *_ = capsys.readouterr().err.splitlines()
    assert '"exception": "Traceback' in log
    assert message == "headtail: lost"


def test_a_bug_keeps_its_traceback(probe: Install) -> None:
    def stumble(args: argparse.Namespace) -> int:
        raise ZeroDivisionError

    probe(stumble)
    with pytest.raises(ZeroDivisionError):
        cli.main(["probe", "deep"])


def test_an_interrupt_is_130(probe: Install) -> None:
    def interrupt(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    probe(interrupt)
    assert cli.main(["probe", "deep"]) == 130


@pytest.mark.parametrize(
    ("words", "usual", "level"),
    [
        ([], "warning", logging.WARNING),
        (["-v"], "warning", logging.INFO),
        (["-vv"], "warning", logging.DEBUG),
        ([], "info", logging.INFO),
        (["-vvvv"], "info", logging.DEBUG),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_verbose_counts_before_and_behind_the_command(
    probe: Install, words: list[str], usual: str, level: int, behind: bool
) -> None:
    probe(lambda _: logging.getLogger().level, log_level=usual)
    command = ["probe", "deep"]
    assert cli.main([*command, *words] if behind else [*words, *command]) == level


@pytest.mark.parametrize(
    "words",
    [["probe"], ["prob"], ["probe", "deep", "--no-such"], ["probe", "deep", "--verb"], ["--x"]],
)
def test_wrong_usage_is_2(
    probe: Install, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    probe(lambda _: 0)
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "usage: headtail" in capsys.readouterr().err


def test_no_command_prints_the_help_and_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "examples:\n  headtail keys new" in capsys.readouterr().err


def test_the_help_keeps_examples_as_they_are(
    probe: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    probe(lambda _: 0)
    with pytest.raises(SystemExit) as caught:
        cli.main(["probe", "--help"])
    assert caught.value.code == 0
    assert "\na\n  b\n" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"headtail {headtail.__version__}\n"


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_every_command_says_the_same_of_itself(
    command: cli.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """The overview has the line from the table, or from the module when that is imported."""
    importlib.import_module(f"headtail.commands.{command.name}")
    overviews = []
    for words in (["--help"], ["--help", command.name]):
        with pytest.raises(SystemExit):
            cli.main(words)
        overviews.append(capsys.readouterr().out)
    assert command.summary in " ".join(overviews[0].split())
    assert overviews[0] == overviews[1]


@pytest.mark.system
def test_a_reader_that_goes_away_is_no_news() -> None:
    code = "import sys; from headtail.cli import main; sys.exit(main(['keys', 'show']))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == cli.READER_GONE
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.system
def test_the_overview_imports_no_command() -> None:
    code = (
        "import sys; from headtail import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('headtail.commands')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.system
def test_the_module_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "headtail", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"headtail {headtail.__version__}\n"
