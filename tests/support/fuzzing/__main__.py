"""The command line of a long run. Exit status 1 when something was found."""

import argparse
import gc
import hashlib
import importlib
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from fuzzing.campaign import Campaign, Tally
from fuzzing.target import Target
from fuzzing.targets import TARGETS

_STEP: Final = 20_000


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="fuzzing", description="Fuzz one parser, or `all`.")
    parser.add_argument("target", nargs="?", choices=[*TARGETS, "all"], help="none: list them")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="how many")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="makes it repeatable")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="one input, with its traceback")
    parser.add_argument("--atheris", action="store_true", help="guided by coverage instead")
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz"), metavar="FOLDER", help="for what breaks it"
    )
    args = parser.parse_args(argv)
    if args.target is None:
        for target in TARGETS.values():
            _say(f"{target.name:15} {target.what}")
        return 0
    chosen = list(TARGETS.values()) if args.target == "all" else [TARGETS[args.target]]
    if args.replay is not None:
        return _replay(chosen[0], args.replay.read_bytes())
    if args.atheris:
        return _atheris(chosen[0], args.inputs)
    return max(_long(target, args.inputs, args.seed, args.out) for target in chosen)


def _long(target: Target, inputs: int, seed: int, out: Path) -> int:
    campaign = Campaign(target, seed=seed)
    done = 0
    while done < inputs and len(campaign.tally.crashes) == 0:
        done += _STEP
        tally = campaign.run(min(_STEP, inputs - done + _STEP))
        _show(target, tally)
    for crash in tally.crashes:
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{target.name}-{hashlib.sha256(crash.data).hexdigest()[:12]}"
        path.write_bytes(crash.data)
        _say(f"{target.name}: {crash.error}\n  {path}")
    return 1 if tally.crashes else 0


def _show(target: Target, tally: Tally) -> None:
    _say(
        f"{target.name}: {tally.inputs} inputs, {tally.inputs / tally.seconds:.0f}/s, ended at "
        f"{tally.places} places, slowest {tally.slowest_s * 1e3:.1f} ms "
        f"({len(tally.slowest)} bytes), {len(tally.crashes)} crashes"
    )


def _replay(target: Target, data: bytes) -> int:
    for parser in target.parsers:
        try:
            parser(data)
        except target.errors as error:
            _say(f"{type(error).__name__}: {error}")
    return 0


def _atheris(target: Target, inputs: int) -> int:
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        _say("atheris is not installed: pip install atheris, or leave out --atheris")
        return 2

    def one(data: bytes) -> None:
        for parser in target.parsers:
            try:
                parser(data)
            except target.errors:
                continue

    # Only our own: everything that is loaded would take minutes.
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and "headtail_" in str(function.__module__):
            atheris.instrument_func(function)
    atheris.Setup([sys.argv[0], f"-runs={inputs}"], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
