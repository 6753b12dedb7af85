#!/usr/bin/env bash
# MicroPython for an emulated Cortex-M3 (QEMU, board mps2-an385), from Debian's source package.
#
# Optional: needs a Debian system with qemu-system-arm, gcc-arm-none-eabi, libnewlib-arm-none-eabi,
# dpkg-dev, make and gcc. Leaves firmware.elf in the folder named, and says so; or says
# what is missing and ends with 3.
#
#   firmware/emulated/build.sh [FOLDER]     (default: ~/.cache/headtail/firmware-emulated)
set -euo pipefail

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/headtail/firmware-emulated}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

missing=()
for tool in qemu-system-arm:qemu-system-arm arm-none-eabi-gcc:gcc-arm-none-eabi \
    make:make gcc:gcc; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
[[ -e /usr/lib/arm-none-eabi/newlib/libc.a || -n $(find /usr/lib/arm-none-eabi -name libc.a -print -quit 2>/dev/null) ]] ||
    missing+=(libnewlib-arm-none-eabi)
if ((${#missing[@]})); then
    echo "SKIPPED: no emulated board; install: apt-get install ${missing[*]}" >&2
    exit 3
fi

mkdir -p "$folder"
folder=$(realpath "$folder")
cd "$folder"
if [[ -e firmware.elf ]]; then
    echo "$folder/firmware.elf is there"
    exit 0
fi

source=$("$here/source.sh" "$folder")

# No frozen modules: the firmware's own are given to it at run time.
: >no_modules.py
jobs=$(nproc)
make -j"$jobs" -C "$source/mpy-cross" >build.log 2>&1
make -j"$jobs" -C "$source/ports/qemu" BOARD=MPS2_AN385 MICROPY_PY_BTREE=0 \
    MICROPY_HEAP_SIZE=262144 FROZEN_MANIFEST="$folder/no_modules.py" >>build.log 2>&1 || {
    tail -n 20 build.log >&2
    exit 1
}
cp "$source/ports/qemu/build-MPS2_AN385/firmware.elf" firmware.elf
echo "$folder/firmware.elf is made"
