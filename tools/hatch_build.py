"""Compiles the entropy coder's kernels when Headtail is built or installed.

They are optional: where there is no C compiler numpy does their work, and the package stays one for
every machine. They need no header of Python's and fit every version of it.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

SOURCE = "fabric/headtail_fabric/rans/native/kernels.c"
LIBRARY = "fabric/headtail_fabric/rans/native/_kernels.so"
FLAGS = ("-std=c11", "-O3", "-fwrapv", "-shared", "-fPIC")


class KernelsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        library = root / LIBRARY
        if failure := compiled(root / SOURCE, library):
            library.unlink(missing_ok=True)
            self.app.display_warning(f"without the kernels in C, numpy codes: {failure}")
            return
        if version != "editable":
            build_data["force_include"][str(library)] = LIBRARY.removeprefix("fabric/")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{next(platform_tags())}"


def compiled(source: Path, library: Path) -> str:
    """Nothing where it was compiled, else why it was not."""
    if sys.platform == "win32":
        return "Windows has another kind of library"
    own = os.environ.get("CC")
    compilers = [own] if own else [sysconfig.get_config_var("CC") or "cc", "cc"]
    failure = ""
    # Nobody loads half a library: it comes by a rename.
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".kernels-") as folder:
        made = Path(folder) / library.name
        for compiler in compilers:
            command = [*shlex.split(compiler), *FLAGS, str(source), "-o", str(made)]
            try:
                subprocess.run(  # noqa: S603 - the compiler that the user has chosen
                    command, capture_output=True, text=True, timeout=120, check=True
                )
            except subprocess.CalledProcessError as error:
                failure = error.stderr.strip() or str(error)
            except (OSError, subprocess.TimeoutExpired) as error:
                failure = str(error)
            else:
                made.replace(library)
                return ""
    return failure
