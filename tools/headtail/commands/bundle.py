"""`headtail bundle`: what is deployed, and what is known of it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headtail.bundle_view import print_table, shortened, show_bundle
from headtail_models.assets.progress import Bars
from headtail_models.bundle import Bundle, BundleCache, PublicKey, open_bundle, sign_bundle
from headtail_models.bundle.cache import CachedBundle
from headtail_models.bundle.keys import create_key_files, load_public_key, load_secret_key
from headtail_models.zoo import build, known

_EXAMPLES: Final = """\
examples:
  headtail bundle build yolov3-tiny-coco        into the cache, under its own name
  headtail bundle show yolov3-tiny-coco         where it may be cut, and what each cut costs
  headtail bundle keys new site                 site.key stays here, site.pub goes to the edges
  headtail bundle sign yolov3-tiny-coco --key site.key
  headtail bundle pack yolov3-tiny-coco .       yolov3-tiny-coco-1.0.headtail, to copy about
  headtail bundle verify --trust site.pub yolov3-tiny-coco-1.0.headtail
"""
_REFERENCE: Final = "a folder, a .headtail file, or a name, name-version or digest of the cache"


def add(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser of `headtail`."""
    parser = subparsers.add_parser(
        "bundle",
        help="build, check, sign and pack bundles",
        description="A bundle holds all that both sides of a cut need: the network's stages, its "
        "weights, tables and measurements. Both sides agree on it by its digest.",
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True)

    listing = actions.add_parser("list", help="the bundles of the cache, and those to be built")
    listing.set_defaults(handler=_list)

    show = actions.add_parser(
        "show", help="a bundle's cuts, with their costs, codecs, exits and accuracy"
    )
    _add_reference(show)
    show.add_argument("--json", action="store_true", help="print the manifest as it is")
    show.set_defaults(handler=_show)

    build = actions.add_parser("build", help="build one of the known bundles")
    build.add_argument("name", metavar="NAME", help="`headtail bundle list` shows them")
    build.add_argument("--out", type=Path, metavar="FOLDER", help="instead of the cache")
    build.set_defaults(handler=_build)

    verify = actions.add_parser("verify", help="check every byte, and who signed; exit 1 if wrong")
    _add_reference(verify)
    verify.add_argument(
        "--trust",
        type=Path,
        metavar="PUBFILE",
        action="append",
        help="this key, or another one given so, must have signed",
    )
    verify.add_argument("--load", action="store_true", help="load every stage and coder as well")
    verify.set_defaults(handler=_verify)

    sign = actions.add_parser("sign", help="sign a bundle where it lies")
    _add_reference(sign)
    sign.add_argument("--key", type=Path, metavar="KEYFILE", required=True, help="a secret key")
    sign.set_defaults(handler=_sign)

    pack = actions.add_parser("pack", help="write a bundle as one file")
    _add_reference(pack)
    pack.add_argument(
        "out", type=Path, nargs="?", default=Path(), metavar="OUT", help="a file or a folder (.)"
    )
    pack.set_defaults(handler=_pack)
    _add_keys(actions)


def _add_keys(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    keys = actions.add_parser("keys", help="the keys that bundles are signed with")
    key_actions = keys.add_subparsers(metavar="ACTION", title="actions", required=True)
    new = key_actions.add_parser("new", help="make a key pair")
    new.add_argument("stem", type=Path, metavar="PATH", help="of PATH.key and PATH.pub")
    new.set_defaults(handler=_new_keys)
    show = key_actions.add_parser("show", help="print a public key's fingerprint")
    show.add_argument("path", type=Path, metavar="PUBFILE")
    show.set_defaults(handler=_show_key)


def _add_reference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help=_REFERENCE)


def _list(args: argparse.Namespace) -> int:
    cache = BundleCache()
    entries = list(cache.entries())
    if entries:
        print_table(
            f"Bundles in {cache.root}",
            ("name", "version", "digest", "about", "cuts", "size"),
            map(_entry_row, entries),
            words=4,
        )
    else:
        print(f"No bundles in {cache.root}")
    here = {entry.manifest.name for entry in entries if entry.manifest}
    if to_build := [name for name in known() if name not in here]:
        print(f"Not built yet: {', '.join(to_build)}")
    return 0


def _entry_row(entry: CachedBundle) -> tuple[str, ...]:
    digest, manifest = entry.digest.hex()[:12], entry.manifest
    if manifest is None:
        return "?", "", digest, f"damaged: {entry.fault}", "", ""
    size_bytes = sum(file.size_bytes for file in manifest.files)
    cuts = str(len(manifest.cuts))
    return (
        manifest.name,
        manifest.version,
        digest,
        manifest.description,
        cuts,
        shortened(size_bytes) + "B",
    )


def _show(args: argparse.Namespace) -> int:
    bundle = _open(args.bundle)
    if args.json:
        sys.stdout.write(bundle.manifest_bytes.decode())
        return 0
    show_bundle(bundle)
    return 0


def _build(args: argparse.Namespace) -> int:
    if args.out is not None:
        with Bars() as bars:
            path = build(args.name, args.out, progress=bars)
    else:
        cache = BundleCache()
        with cache.workshop() as folder, Bars() as bars:
            path = cache.adopt(build(args.name, folder / "bundle", progress=bars))
    print(f"{open_bundle(path).digest.hex()}  {path}")
    return 0


def _verify(args: argparse.Namespace) -> int:
    trusted = None if args.trust is None else [load_public_key(path) for path in args.trust]
    bundle = _open(args.bundle, trusted=trusted)
    manifest = bundle.manifest
    if args.load:
        for entry in manifest.stages():
            bundle.open_stage(entry)
        for cut in manifest.cuts:
            bundle.codecs(cut.name)
    loaded = ", every stage loads" if args.load else ""
    signed = "unsigned"
    if bundle.signed_by is not None:
        trust = "trusted" if trusted is not None else "not checked against trusted keys"
        signed = f"signed by {bundle.signed_by.fingerprint} ({trust})"
    print(f"{bundle.name}: {len(manifest.files)} files whole{loaded}; {signed}")
    return 0


def _sign(args: argparse.Namespace) -> int:
    path = BundleCache().find(args.bundle)
    bundle = sign_bundle(path, load_secret_key(args.key))
    assert bundle.signed_by is not None
    print(f"{bundle.name} in {path}: signed by {bundle.signed_by.fingerprint}")
    return 0


def _pack(args: argparse.Namespace) -> int:
    path = _open(args.bundle).pack(args.out)
    print(f"{path}  {path.stat().st_size:,} bytes")
    return 0


def _new_keys(args: argparse.Namespace) -> int:
    secret_path, public_path = create_key_files(args.stem)
    print(f"secret key   {secret_path} (it stays here)")
    print(f"public key   {public_path} (for whoever shall trust it)")
    print(f"fingerprint  {load_public_key(public_path).fingerprint}")
    return 0


def _show_key(args: argparse.Namespace) -> int:
    print(load_public_key(args.path).fingerprint)
    return 0


def _open(reference: str, *, trusted: Sequence[PublicKey] | None = None) -> Bundle:
    return open_bundle(BundleCache().find(reference), trusted=trusted)
