"""The `headtail` command: finds the sub-command, runs it, and turns errors into advice.

Exit status: 0 done, 1 failed with an error that says what to do, 2 wrong usage, 130 interrupted,
141 the reader of the output went away. Any other exception is a bug and keeps its traceback.
"""

import argparse
import importlib
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, get_args

from headtail import __version__
from headtail_fabric import logs
from headtail_fabric.errors import HeadtailError

FAILED: Final = 1
WRONG_USAGE: Final = 2  # as argparse has it
INTERRUPTED: Final = 130
READER_GONE: Final = 141

_LEVELS: Final[tuple[logs.Level, ...]] = ("error", "warning", "info", "debug")
_EPILOG: Final = """\
examples:
  headtail keys new edge-1          make a key pair
  headtail COMMAND --help           what a command can do
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Command:
    """A module of `headtail.commands` and the line that `headtail --help` has for it.

    The line is here, too, so that the overview need not import what a command needs.
    """

    name: str
    summary: str

    def add(self, subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        """Import the module and let it add its parser."""
        importlib.import_module(f"headtail.commands.{self.name}").add(subparsers)


COMMANDS: Final = (
    Command("run", "run a whole pipeline: a device here, an edge beside it or elsewhere"),
    Command("device", "run heads on pictures"),
    Command("edge", "serve tails to devices"),
    Command("cloud", "serve tails, whole networks and a language model over HTTP"),
    Command("link", "emulate a slow or broken link between a device and an edge on this machine"),
    Command("describe", "let a language model write a short report of what a device saw"),
    Command("top", "watch devices, links, placements, queues and batches"),
    Command("plan", "find where to cut an ONNX model for a link and a device"),
    Command("split", "cut an ONNX model into head and tail"),
    Command("export", "make heads for microcontrollers"),
    Command("node", "make and check the files of a microcontroller"),
    Command("train", "train a bottleneck or early exits by a recipe"),
    Command("bundle", "build, check, sign and pack bundles"),
    Command("assets", "fetch pretrained weights and sample clips"),
    Command("keys", "make keys, and say who may connect"),
    Command("bench", "measure speed, bytes and accuracy"),
)


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs, and leaves text of several lines (examples) as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return textwrap.indent(text, indent)
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A parser with the options that every command has; sub-parsers inherit the class."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **{"formatter_class": _Formatter, **options})
        # Suppressed defaults: an option given before the sub-command is not reset behind it.
        common = self.add_argument_group("for every command")
        common.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=argparse.SUPPRESS,
            help="log more to standard error; -vv logs everything",
        )
        common.add_argument(
            "--log-format",
            choices=get_args(logs.LogFormat),
            default=argparse.SUPPRESS,
            help="key=value text (the default) or JSON lines",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status, or raises SystemExit for usage and help."""
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except HeadtailError as error:
        log.debug("command failed", exc_info=error)
        _explain(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return READER_GONE
    return status


def _run(words: Sequence[str]) -> int:
    parser = _build_parser(words)
    args = parser.parse_args(words)
    handler: Callable[[argparse.Namespace], int] | None = getattr(args, "handler", None)
    if handler is None:
        parser.print_help(sys.stderr)
        return WRONG_USAGE
    logs.configure(level=_level(args), log_format=getattr(args, "log_format", "text"))
    return handler(args)


def _build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of everything, with only the commands filled in that `words` can mean."""
    parser: argparse.ArgumentParser = _Parser(
        prog="headtail",
        description="Split inference between devices, edge and cloud.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"headtail {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in COMMANDS:
        if command.name in words:
            command.add(subparsers)
        else:
            subparsers.add_parser(command.name, help=command.summary)
    return parser


def _level(args: argparse.Namespace) -> logs.Level:
    """The command's own default (`log_level`, else warnings), and one step more for each -v."""
    usual = _LEVELS.index(getattr(args, "log_level", "warning"))
    return _LEVELS[min(usual + getattr(args, "verbose", 0), len(_LEVELS) - 1)]


def _explain(error: HeadtailError) -> None:
    width = min(shutil.get_terminal_size().columns, 100)
    print(f"headtail: {logs.printable(error.message)}", file=sys.stderr)
    print(
        textwrap.fill(
            error.advice,
            width,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        ),
        file=sys.stderr,
    )


def _forget_output() -> None:
    """Let the interpreter's last flush go nowhere instead of failing again."""
    with suppress(OSError, ValueError):  # no real file behind it, or closed already
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
