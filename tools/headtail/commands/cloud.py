"""`headtail cloud`: the cloud server, its API keys, and a tail as a function."""

import argparse
import os
from pathlib import Path
from typing import Final

import msgspec

from headtail import __version__
from headtail.provision import ensure_bundle
from headtail_cloud.config import CloudConfig
from headtail_cloud.extra import require
from headtail_fabric import config, config_example
from headtail_fabric.errors import ConfigError
from headtail_fabric.notify import StopSignal

_EXAMPLES: Final = """\
examples:
  headtail cloud serve
  headtail cloud serve --llm smollm2
  headtail cloud serve --model yolov3-tiny-coco
  headtail cloud serve --model yolov3-tiny-coco:L4 --host 0.0.0.0 --tenants tenants.toml
  headtail cloud serve --model yolov3-tiny-coco --runtime process --workers 2
  headtail cloud serve --print-config > cloud.toml
  headtail cloud key cameras >> tenants.toml
  PORT=8080 headtail cloud function yolov3-tiny-coco:L4
"""

_FLAGS: Final = (
    "host",
    "port",
    "models",
    "trusted",
    "tenants",
    "threads",
    "runtime",
    "ray.address",
    "workers",
    "edges.bind",
    "llm",
    "max_batch",
    "deadline_s",
)
_DEFAULT_LLM: Final = "smollm2"
_DEFAULT_BUNDLE: Final = "yolov3-tiny-coco"
_MIB: Final = 1024 * 1024
_DEFAULT_PORT: Final = "8080"


class BadPortError(ConfigError):
    """PORT is not a port. Set it to a number from 1 to 65535, or leave it out."""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "cloud",
        help="serve tails, whole networks and a language model over HTTP",
        description="The cloud server runs tails and whole networks for whoever may ask, over "
        "HTTP. It needs the extra: pip install 'headtail[cloud]'.",
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    _add_serve(actions)
    _add_key(actions)
    _add_function(actions)


def _add_serve(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Flags are named by the setting they override; none has a default of its own."""
    parser = actions.add_parser(
        "serve",
        help="run a server until it is stopped",
        description="Serves until SIGTERM or SIGINT, then finishes what it has accepted. When "
        "the models are loaded it prints one JSON line. Flags win over the file. With nothing to "
        "serve named, it is a detector's bundle and the language model smollm2.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting with its default, as a file to begin with, and exit",
    )
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="TCP port; 0 takes a free one")
    parser.add_argument(
        "--model",
        action="append",
        dest="models",
        metavar="BUNDLE[:CUT]",
        help="a bundle, or one of its cuts; may be given again",
    )
    parser.add_argument(
        "--trust",
        action="append",
        dest="trusted",
        type=Path,
        metavar="PUBFILE",
        help="a key that bundles must be signed by; may be given again",
    )
    parser.add_argument("--tenants", type=Path, metavar="FILE", help="who may ask")
    parser.add_argument("--threads", type=int, help="threads that compute a batch")
    parser.add_argument("--llm", metavar="MODEL", help="a language model: smollm2, or a folder")
    parser.add_argument(
        "--runtime",
        choices=("in-process", "process", "ray"),
        help="where models run: in this process, in worker processes, or in a Ray cluster",
    )
    parser.add_argument(
        "--edges",
        dest="edges.bind",
        metavar="ENDPOINT",
        help="where edges forward to, as tcp://127.0.0.1:5558",
    )
    parser.add_argument(
        "--ray",
        dest="ray.address",
        metavar="HOST:PORT",
        help="the Ray cluster to join, or auto; one is started here if there is none named",
    )
    parser.add_argument("--workers", type=int, help="worker processes of a bundle at most")
    parser.add_argument("--max-batch", type=int, help="requests computed together at most")
    parser.add_argument(
        "--deadline", type=float, dest="deadline_s", metavar="S", help="where a request names none"
    )
    parser.set_defaults(handler=_serve, log_level="info")


def _add_key(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser(
        "key",
        help="make an API key",
        description="Prints a tenant's table for the tenants' file, with a new key in a comment. "
        "Only its hash is needed there: give the key to the tenant, and remove the comment.",
    )
    parser.add_argument("name", help="the tenant's name")
    parser.set_defaults(handler=_key)


def _add_function(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = actions.add_parser(
        "function",
        help="serve one model as a function, for Knative, Cloud Run and the like",
        description="An HTTP server that takes requests and CloudEvents at /, on the port in "
        "PORT. It asks for no keys: the platform in front of it does.",
    )
    parser.add_argument("model", metavar="BUNDLE[:CUT]", help="a bundle, or one of its cuts")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--max-body-mb", type=float, default=32.0, metavar="MIB", help="default: %(default)s"
    )
    parser.set_defaults(handler=_function, log_level="info")


def _serve(args: argparse.Namespace) -> int:
    if args.print_config:
        print(config_example.example(CloudConfig), end="")
        return 0
    settings = config.load(CloudConfig, args.config, {name: getattr(args, name) for name in _FLAGS})
    require("starlette", "uvicorn", "httpx2", "prometheus_client")
    if not settings.models and not settings.llm and not settings.remotes:
        settings = msgspec.structs.replace(
            settings, llm=_DEFAULT_LLM, models=(str(ensure_bundle(_DEFAULT_BUNDLE)),)
        )
    if settings.llm:
        require("torch", "tokenizers", "safetensors", "jinja2", extra="llm")
    if settings.runtime == "ray":
        require("ray", extra="cloud-ray")
    # Only now: what they need is not in every installation, and takes a while to load.
    from headtail_cloud.daemon import serve

    with StopSignal() as stop:
        serve(settings, version=__version__, stop=stop.event)
    return 0


def _key(args: argparse.Namespace) -> int:
    from headtail_cloud.tenants import new_tenant

    print(new_tenant(args.name), end="")
    return 0


def _function(args: argparse.Namespace) -> int:
    require("starlette", "uvicorn")
    port = os.environ.get("PORT", _DEFAULT_PORT)
    if not (port.isdecimal() and 0 < int(port) < 65_536):
        raise BadPortError(f"PORT is {port[:20]!r}")
    from headtail_cloud.gateway.limits import Limits
    from headtail_cloud.serverless import container
    from headtail_cloud.serverless.function import TailFunction

    limits = Limits(body_bytes=round(args.max_body_mb * _MIB), body_s=10.0, concurrency=64)
    function = TailFunction.load(args.model, threads=args.threads)
    container.run(function, limits, host=args.host, port=int(port))
    return 0
