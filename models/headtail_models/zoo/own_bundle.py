"""Bundles whose head a microcontroller runs: all of them was trained here and lies in the package.

released/<bundle>/bundle.json      the manifest, without its list of files
released/<bundle>/...              stages, and samples to quantise the head on
"""

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from headtail_models.bundle.manifest import Manifest, decode_manifest
from headtail_models.zoo.versions import VERSIONS

RECORD: Final = "bundle.json"


def write(name: str, folder: Path) -> Manifest:
    """Copy the released files of a bundle into `folder`; the manifest lacks only their list."""
    with as_file(files(__package__).joinpath("released", name)) as released:
        return assemble(released, folder)


def assemble(released: Path, folder: Path) -> Manifest:
    """The same from any folder of released files."""
    manifest = decode_manifest((released / RECORD).read_bytes())
    for path in sorted(released.iterdir()):
        if path.name != RECORD:
            shutil.copyfile(path, folder / path.name)
    return replace(manifest, version=VERSIONS[manifest.name])
