"""`headtail node`: the files of a microcontroller, made and checked, and its place in a gateway's
list."""

import argparse
import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import zmq
from zmq.utils import z85

from headtail_edge.gateway.envelope import PSK_BYTES
from headtail_edge.gateway.node_book import NodeEntry, Roster, add_node, read_roster
from headtail_fabric import keys
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_fabric.keys import check_name, write_new

_PASSWORD_BYTES: Final = 16
_SECURITY: Final = {"zmtp": "curve", "udp": "psk", "tcp": "psk", "serial": "psk"}
_PORTS: Final = {"zmtp": 7001, "udp": 7002, "tcp": 7003, "serial": 0}
_FITTING: Final = {"zmtp": ("curve", "plain", "none"), "serial": ("psk", "none")}
_EXAMPLES: Final = """\
examples:
  headtail node new door-1 --host 192.168.1.10 --gateway-key gateway.pub --nodes nodes.toml \\
      --head digits.head --app microphone --out door-1
  headtail node new field-7 --link udp --host 192.168.1.10 --nodes nodes.toml --sleep \\
      --report-s 900 --head motion.head --app imu --out field-7
  headtail node check door-1 digits.head firmware/boards/apps/microphone.py --nodes nodes.toml
  mpremote cp door-1/config.json door-1/secrets.json digits.head :
"""


class NodeFolderError(ResourceError):
    """The node's files can't be written. Name a folder that is new or empty, on a disk with room;
    a node that the message names is in the gateway's list already: remove its table to make it
    anew."""


class NodeUnknownError(ConfigError):
    """A gateway with this list would refuse the node. Copy the node's own files to it, or make it
    anew with `headtail node new` once its table is out of the list."""


class NodeOptionError(ConfigError):
    """The options do not fit each other. See the message, and `headtail node new --help`."""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "node",
        help="make and check the files of a microcontroller",
        description="Microcontrollers that run heads (firmware/README.md).",
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    new = actions.add_parser(
        "new",
        help="config.json and secrets.json of a node, with new keys",
        description="Makes keys, writes the node's two files, and adds the node to the gateway's "
        "list. secrets.json belongs on the node alone: remove it here once it is there.",
        epilog=_EXAMPLES,
    )
    new.add_argument("name", metavar="NAME", help="letters, digits, dots, dashes, underscores")
    new.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the files")
    new.add_argument(
        "--nodes", type=Path, required=True, metavar="FILE", help="the gateway's list of nodes"
    )
    new.add_argument(
        "--link", choices=tuple(_SECURITY), default="zmtp", help="the way to the gateway (zmtp)"
    )
    new.add_argument(
        "--security",
        choices=("curve", "plain", "none", "psk"),
        help="how the link is protected (curve for zmtp, psk for the others)",
    )
    new.add_argument("--host", default="", help="where the gateway is")
    new.add_argument("--port", type=int, help="its port (zmtp 7001, udp 7002, tcp 7003)")
    new.add_argument(
        "--gateway-key", type=Path, metavar="PUBFILE", help="the gateway's public key, for curve"
    )
    new.add_argument("--tls-ca", metavar="DER", help="certificate on the node to trust, for tcp")
    new.add_argument("--wifi", metavar="SSID", default="", help="the network's name")
    new.add_argument("--wifi-password", default="", metavar="TEXT", help="and its password")
    new.add_argument("--head", default="", metavar="FILE", help="the head's name on the node")
    new.add_argument("--trust", action="append", default=[], metavar="FILE", help="update keys")
    new.add_argument(
        "--app", required=True, metavar="MODULE", help="the node's own code: sensor in, action out"
    )
    new.add_argument("--sample-s", type=float, default=1.0, metavar="S", help="between samples (1)")
    new.add_argument(
        "--report-s", type=float, default=60.0, metavar="S", help="between conversations (60)"
    )
    new.add_argument("--sleep", action="store_true", help="deep sleep between samples")
    new.add_argument("--always-on", action="store_true", help="keep the link open")
    new.set_defaults(handler=_new)
    check = actions.add_parser(
        "check",
        help="whether a node would start with its files, and be let in",
        description="Reads a node's files as the node will, before they are copied to it: settings "
        "and secrets, keys of updates, the log's room, the head with its golden vector. Sensors, "
        "networks and memory are the board's to judge.",
        epilog=_EXAMPLES,
    )
    check.add_argument("folder", type=Path, metavar="FOLDER", help="what `node new` made")
    check.add_argument(
        "files",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="other files to be copied: the head, the app, keys",
    )
    check.add_argument(
        "--nodes", type=Path, metavar="FILE", help="the gateway's list: whether it has the keys"
    )
    check.set_defaults(handler=_check_node)


def _new(args: argparse.Namespace) -> int:
    check_name(args.name)
    security = args.security or _SECURITY[args.link]
    _check(args, security)
    entry, proofs = _credentials(args, security)
    entry = add_node(args.nodes, args.name, entry)
    if entry.psk_id is not None:
        proofs["psk_id"] = entry.psk_id
    wifi = {"wifi_ssid": args.wifi, "wifi_password": args.wifi_password}
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        write_new(args.out / "config.json", _text(_config(args, security)), mode=0o644)
        write_new(args.out / "secrets.json", _text({"schema": 1, **wifi, **proofs}), mode=0o600)
    except OSError as error:
        raise NodeFolderError(f"{args.out}: {error.strerror} ({args.name} is listed)") from None
    print(f"{args.out}/config.json and secrets.json: copy both to the node")
    print(f"{args.name} is in {args.nodes}; a running gateway follows at once")
    return 0


def _check_node(args: argparse.Namespace) -> int:
    from headtail.boards.node_files import check_files

    checked = check_files(args.folder, args.files)
    name, link, duty = (checked.config[key] for key in ("name", "link", "duty"))
    way = "a cable" if link["kind"] == "serial" else f"{link['host']}:{link['port']}"
    print(f"{name}: {link['kind']} to {way}, {link['security']}")
    print(f"Every {duty['sample_s']:g} s a sample, every {duty['report_s']:g} s a report at most")
    print(
        f"{checked.config['head']['file']}: {checked.head_bytes:,} bytes, right; records of up to "
        f"{checked.record_bytes} bytes, the log has room for {checked.record_room}"
    )
    if args.nodes is not None:
        if not _is_known(read_roster(args.nodes), name, link["security"], checked.secrets):
            raise NodeUnknownError(f"{args.nodes} has no {name} with what is in secrets.json")
        print(f"{name} is in {args.nodes}, with these secrets")
    return 0


def _is_known(roster: Roster, name: str, security: str, held: Mapping[str, Any]) -> bool:
    """Whether a gateway with this list would let in who holds these secrets."""
    if security == "curve":
        public = zmq.curve_public(z85.encode(bytes.fromhex(held["curve_secret"])))
        told = held["curve_public"]
        fitting = not told or bytes.fromhex(told) == z85.decode(public)
        return fitting and roster.by_public(public.decode()) == name
    if security == "plain":
        return roster.by_password(name, held["password"].encode())
    if security == "psk":
        return roster.by_psk_id(held["psk_id"]) == (name, bytes.fromhex(held["psk"]))
    return roster.is_open(name)


def _check(args: argparse.Namespace, security: str) -> None:
    fitting = _FITTING.get(args.link, ("psk",))
    if security not in fitting:
        raise NodeOptionError(f"a {args.link} link has security {' or '.join(fitting)}")
    if args.link != "serial" and not args.host:
        raise NodeOptionError("--host is needed: the node has to know where the gateway is")
    if security == "curve" and args.gateway_key is None:
        raise NodeOptionError("--gateway-key is needed: the node has to know the gateway's key")
    if args.sleep and args.always_on:
        raise NodeOptionError("--sleep and --always-on exclude each other")
    for name in ("config.json", "secrets.json"):
        if (args.out / name).exists():
            raise NodeFolderError(f"{args.out / name} is there already")


def _credentials(args: argparse.Namespace, security: str) -> tuple[NodeEntry, dict[str, Any]]:
    """What the gateway is to know, and what the node."""
    if security == "curve":
        from headtail_edge.gateway.links.zmtp import key_hex

        pair = keys.generate(args.name)
        return NodeEntry(public=pair.public), {
            "curve_secret": key_hex(pair.secret),
            "curve_public": key_hex(pair.public),
        }
    if security == "plain":
        password = secrets.token_hex(_PASSWORD_BYTES)
        hashed = hashlib.sha256(password.encode()).hexdigest()
        return NodeEntry(password_sha256=hashed), {"password": password}
    if security == "psk":
        psk = secrets.token_hex(PSK_BYTES)
        return NodeEntry(psk=psk), {"psk": psk}
    return NodeEntry(), {}


def _config(args: argparse.Namespace, security: str) -> dict[str, Any]:
    link: dict[str, Any] = {"kind": args.link, "security": security}
    if args.link != "serial":
        link |= {"host": args.host, "port": args.port or _PORTS[args.link]}
    if security == "curve":
        from headtail_edge.gateway.links.zmtp import key_hex

        link["server_key"] = key_hex(keys.load_public(args.gateway_key).public)
    if args.tls_ca:
        link["tls_ca"] = args.tls_ca
    if args.always_on:
        link["always_on"] = True
    return {
        "schema": 1,
        "name": args.name,
        "link": link,
        "duty": {
            "sample_s": args.sample_s,
            "report_s": args.report_s,
            "deep_sleep": args.sleep,
        },
        "head": {"file": args.head, "trust": args.trust},
        "app": {"module": args.app, "options": {}},
    }


def _text(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=1) + "\n"
