#!/usr/bin/env bash
# The kernels in C as native modules, one for each processor whose compiler is here.
#
# Optional: needs a Debian system with make and dpkg-dev (MicroPython's own tools come from Debian's
# source package), and gcc, gcc-arm-none-eabi with libnewlib-arm-none-eabi, or both. Leaves
# ARCHITECTURE/natmod.mpy in the folder named, and says so; or says what is missing and ends with 3.
#
#   firmware/natmod/build.sh [FOLDER]     (default: ~/.cache/headtail/firmware-natmod)
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/headtail
folder=${1:-$cache/firmware-natmod}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

missing=()
command -v make >/dev/null || missing+=(make)
"${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
architectures=()
if [[ $(uname -m) == x86_64 ]] && command -v gcc >/dev/null; then
    architectures+=(x64)
else
    echo "SKIPPED: no kernels in C for the unix port; they need gcc on x86-64" >&2
fi
if command -v arm-none-eabi-gcc >/dev/null &&
    echo '#include <stdio.h>' | arm-none-eabi-gcc -E - >/dev/null 2>&1; then
    # On v6-M, which can't multiply and add in one instruction, the assembler is as fast.
    architectures+=(armv7m armv7emsp armv7emdp)
else
    echo "SKIPPED: no kernels in C for ARM; install: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi" >&2
fi
((${#architectures[@]})) || missing+=(gcc)
if ((${#missing[@]})); then
    echo "SKIPPED: no kernels in C; install: apt-get install ${missing[*]}" >&2
    exit 3
fi

source=$("$here/../emulated/source.sh" "$cache/firmware-emulated")
mkdir -p "$folder"
folder=$(realpath "$folder")
# MicroPython's linker reads object files with it.
if [[ ! -x $folder/venv/bin/python ]]; then
    "${PYTHON:-python3}" -m venv "$folder/venv"
    "$folder/venv/bin/pip" install -q pyelftools==0.33
fi
for architecture in "${architectures[@]}"; do
    target=$folder/$architecture
    mkdir -p "$target"
    cp "$here/kernels.c" "$here/Makefile" "$target"
    make -s -C "$target" MPY_DIR="$source" ARCH="$architecture" PYTHON="$folder/venv/bin/python" \
        >"$target/build.log" 2>&1 || {
        tail -n 20 "$target/build.log" >&2
        exit 1
    }
    echo "$target/natmod.mpy is made"
done
