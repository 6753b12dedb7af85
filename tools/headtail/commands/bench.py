"""`headtail bench`: measure, print, and write the figures."""

import argparse
import pkgutil
from importlib import import_module
from pathlib import Path

from rich.console import Console

from headtail import bench
from headtail_fabric.errors import ConfigError, ResourceError


def names() -> list[str]:
    """Every benchmark, by its name on the command line."""
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(name.replace("_", "-") for name in modules if name != "report")


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "bench",
        help="measure speed, bytes and accuracy",
        description="Run one benchmark: prints tables and targets, writes them as JSON on request.",
        epilog="example: headtail bench wire --json wire.json",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("name", choices=names(), metavar="NAME", help=", ".join(names()))
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(handler=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        module = import_module(f"headtail.bench.{options.name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("headtail"):
            raise
        raise ConfigError(
            f"this benchmark needs {error.name!r}: pip install 'headtail[bench]'"
        ) from None
    parser = argparse.ArgumentParser(
        prog=f"headtail bench {options.name}", description=module.__doc__
    )
    parser.add_argument("--json", type=Path, metavar="FILE", default=options.json)
    module.add_arguments(parser)
    chosen = parser.parse_args(options.rest)
    report = module.run(chosen)
    report.show(Console())
    if chosen.json is not None:
        try:
            report.write(chosen.json)
        except OSError as error:
            raise ResourceError(f"can't write {chosen.json}: {error.strerror}") from None
    return 0 if all(target.met for target in report.targets) else 3
