"""`headtail keys`: key pairs, and the list of who may connect."""

import argparse
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headtail_fabric import allowlist, keys
from headtail_fabric.allowlist import Member, Role
from headtail_fabric.config import ConfigMissingError
from headtail_fabric.errors import ConfigError
from headtail_fabric.seal import key as seal_key

_EXAMPLES: Final = """\
examples:
  headtail keys new edge-1                          on the edge
  headtail keys new cam-1                           on the device; then copy cam-1.pub to the edge
  headtail keys enrol cam-1.pub                     on the edge; a running server follows at once
  headtail keys enrol 'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7' --name cam-2
  headtail keys seal edge-1                         on the edge; copy edge-1.seal.pub to devices
  headtail keys show
  headtail keys revoke cam-1
"""


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "keys",
        help="make keys, and say who may connect",
        description="Every device and every edge has a CURVE key pair; a server's allow-list "
        "says whose connections it takes, and under which name.",
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)

    new = actions.add_parser("new", help="make a key pair")
    new.add_argument("name", metavar="NAME", help="letters, digits, dots, dashes, underscores")
    _add_dir(new)
    new.set_defaults(handler=_new)

    seal = actions.add_parser(
        "seal",
        help="make an edge's sealing key pair",
        description="Devices that are given the .seal.pub file seal their payloads to it, so that "
        "no relay between reads them.",
    )
    seal.add_argument("name", metavar="NAME", help="the edge's, such as edge-1")
    _add_dir(seal)
    seal.set_defaults(handler=_seal)

    show = actions.add_parser("show", help="list the keys here and who is enrolled")
    show.add_argument("name", metavar="NAME", nargs="?", help="only this one")
    _add_dir(show)
    _add_allow(show)
    show.set_defaults(handler=_show)

    enrol = actions.add_parser("enrol", help="let the owner of a public key connect")
    enrol.add_argument("source", metavar="PUBFILE|KEY", help="a .pub file, or a key in quotes")
    enrol.add_argument("--name", help="the name to enrol under; the .pub file's by default")
    enrol.add_argument("--role", choices=[role.value for role in Role], default=Role.DEVICE.value)
    _add_allow(enrol)
    enrol.set_defaults(handler=_enrol, usage_error=enrol.error)

    revoke = actions.add_parser("revoke", help="take a member off the list")
    revoke.add_argument("name", metavar="NAME")
    _add_allow(revoke)
    revoke.set_defaults(handler=_revoke)


def _add_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=keys.default_dir(),
        metavar="FOLDER",
        help="where the key files lie (%(default)s)",
    )


def _add_allow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        type=Path,
        default=allowlist.default_path(),
        metavar="FILE",
        help="the server's allow-list (%(default)s)",
    )


def _new(args: argparse.Namespace) -> int:
    pair = keys.generate(args.name)
    secret_path = keys.save(pair, args.dir)
    public_path = secret_path.with_suffix(".pub")
    print(f"secret key  {secret_path} (it stays here)")
    print(f"public key  {public_path}")
    print(f"            {pair.public}")
    print(f"enrol it where it shall connect: headtail keys enrol {shlex.quote(str(public_path))}")
    return 0


def _seal(args: argparse.Namespace) -> int:
    pair = seal_key.generate(args.name)
    secret_path = seal_key.save(pair, args.dir)
    public_path = secret_path.with_name(secret_path.name + ".pub")
    print(f"secret sealing key  {secret_path} (it stays here; edge: seal.key)")
    print(f"public sealing key  {public_path}")
    print(f"                    {pair.public_text}")
    print(f"devices seal to it: headtail device run --seal-to {shlex.quote(str(public_path))}")
    return 0


def _show(args: argparse.Namespace) -> int:
    rows = [row for row in _key_rows(args.dir) if args.name in (None, row[0])]
    members = [member for member in _members(args.allow) if args.name in (None, member.name)]
    if args.name is not None and not rows and not members:
        raise keys.KeyMissingError(
            f"no key named {args.name!r} in {args.dir}, and nobody of that name in {args.allow}"
        )
    if rows:
        _print_table(f"Keys in {args.dir}", ("name", "public key", "secret key"), rows)
    else:
        print(f"No key {args.name or 'at all'} in {args.dir}")
    if members:
        _print_table(
            f"Enrolled in {args.allow}",
            ("name", "public key", "role", "added"),
            [(member.name, member.public, member.role, str(member.added)) for member in members],
        )
    else:
        print(f"{f'{args.name} is not' if args.name else 'Nobody is'} enrolled in {args.allow}")
    return 0


def _key_rows(directory: Path) -> Iterable[tuple[str, ...]]:
    """Name, public key and whether the secret is here, by the .pub files: no secret is read."""
    for path in sorted(directory.glob("*.pub")):
        sealing = path.name.endswith(seal_key.PUBLIC_SUFFIX)
        secret_path = path.with_suffix("" if sealing else ".key")
        secret = "here" if secret_path.exists() else "elsewhere"
        name = path.name.removesuffix(seal_key.PUBLIC_SUFFIX) if sealing else path.stem
        try:
            yield name, _public_text(path, sealing=sealing), secret
        except ConfigError as error:
            yield name, f"damaged: {error.message}", secret


def _public_text(path: Path, *, sealing: bool) -> str:
    if sealing:
        return seal_key.public_text(seal_key.load_public(path))
    return keys.load_public(path).public


def _members(path: Path) -> Iterable[Member]:
    try:
        return allowlist.read_members(path).values()
    except ConfigMissingError:
        return ()


def _enrol(args: argparse.Namespace) -> int:
    key = _public_key(args)
    member = Member(
        name=args.name or key.name,
        public=key.public,
        role=Role(args.role),
        added=datetime.now(UTC).date(),
    )
    allowlist.enrol(args.allow, member)
    print(f"{member.name} may connect as {member.role} ({args.allow})")
    return 0


def _public_key(args: argparse.Namespace) -> keys.PublicKey:
    path = Path(args.source)
    if path.suffix == ".key":
        args.usage_error(f"{path} holds the secret key; give the .pub file beside it")
    if len(args.source) != keys.KEY_CHARS or path.exists():
        return keys.load_public(path)
    if args.name is None:
        args.usage_error("a bare key needs --name NAME")
    return keys.PublicKey(name=args.name, public=keys.check_public(args.source))


def _revoke(args: argparse.Namespace) -> int:
    member = allowlist.revoke(args.allow, args.name)
    print(f"{member.name} may no longer connect ({args.allow})")
    return 0


def _print_table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(title=Text(title), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Z85 holds brackets, which rich would take for markup.
        table.add_row(*map(Text, row))
    # Keys must stay whole where no terminal sets a width.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
