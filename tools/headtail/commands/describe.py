"""`headtail describe`: a short report of what a device saw."""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from headtail.description.client import chat
from headtail.description.facts import Facts, facts_of
from headtail.description.wording import invented, messages
from headtail_fabric.errors import ResourceError

_EXAMPLES: Final = """\
examples:
  headtail cloud serve --llm smollm2 &
  headtail run --out out && headtail describe out/frames.jsonl
  headtail describe out/frames.jsonl --facts-only
  tail -n 500 frames.jsonl | headtail describe - --url https://llm.example --model llama
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "describe",
        help="let a language model write a short report of what a device saw",
        description="Counts what a device's JSON lines hold, and asks a language model for a few "
        "sentences about it. What was counted is printed first, and is exact; what the model "
        "writes is marked as such, and numbers in it that it was not given are listed. A small "
        "model words things badly and gets some wrong.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("lines", metavar="FILE", help="a run's frames.jsonl; - for standard input")
    parser.add_argument(
        "--url",
        default="http://127.0.0.1:8080",
        help="a server of the OpenAI API (default: %(default)s); its key in HEADTAIL_API_KEY",
    )
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    parser.add_argument("--max-tokens", type=int, default=120, help="default: %(default)s")
    parser.add_argument("--facts-only", action="store_true", help="ask no model")
    parser.set_defaults(handler=_describe)


def _describe(args: argparse.Namespace) -> int:
    facts = _facts(args.lines)
    for sentence in facts.sentences():
        print(sentence)
    if args.facts_only:
        return 0
    report = chat(
        args.url,
        model=args.model,
        messages=messages(facts),
        max_tokens=args.max_tokens,
        key=os.environ.get("HEADTAIL_API_KEY"),
    )
    print(f"\nWritten by {args.model}, not checked but for its numbers:\n{report}")
    if wrong := invented(report, facts):
        print(f"\nNot among the facts: {', '.join(wrong)}")
    return 0


def _facts(name: str) -> Facts:
    if name == "-":
        return facts_of(sys.stdin.buffer)
    try:
        with Path(name).open("rb") as lines:
            return facts_of(lines)
    except OSError as error:
        raise ResourceError(f"can't read {name}: {error.strerror}") from None
