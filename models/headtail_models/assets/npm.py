"""Archives from an npm registry, by the user's own `npm` and its settings."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from headtail_models.assets.catalogue import Asset
from headtail_models.assets.errors import (
    NotPublishedError,
    NpmMissingError,
    UnreachableError,
)
from headtail_models.assets.progress import ProgressSink

_TIMEOUT_S: Final = 900.0


class Npm:
    """`npm pack`, which downloads a package's archive and runs none of its scripts."""

    def __init__(self, command: str = "npm") -> None:
        self._command = command

    def download(self, asset: Asset, part: Path, *, progress: ProgressSink) -> None:
        program = shutil.which(self._command)
        if program is None:
            raise NpmMissingError(f"asset {asset.name} needs the command {self._command!r}")
        progress.begin(asset.filename, total_bytes=asset.size_bytes)
        with tempfile.TemporaryDirectory(dir=part.parent, prefix="npm-") as folder:
            self._pack(program, asset, Path(folder))
            archives = list(Path(folder).glob("*.tgz"))
            if len(archives) != 1:
                raise NotPublishedError(f"npm pack left {len(archives)} archives")
            progress.advance(archives[0].stat().st_size)
            archives[0].replace(part)

    def _pack(self, program: str, asset: Asset, folder: Path) -> None:
        command = [program, "pack", f"{asset.package}@{asset.version}", "--ignore-scripts"]
        try:
            subprocess.run(  # noqa: S603  # the arguments come from the released catalogue
                [*command, "--pack-destination", str(folder)],
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"npm pack took more than {_TIMEOUT_S:.0f} s") from None
        except subprocess.CalledProcessError as error:
            words = error.stderr.strip()
            if "E404" in words or "ETARGET" in words:
                raise NotPublishedError(
                    f"the npm registry does not have {asset.package}@{asset.version}"
                ) from None
            raise UnreachableError(f"npm pack failed: {words[-300:]}") from None
