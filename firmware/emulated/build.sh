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
# The last release of Debian whose source package builds here without a newer libc.
suite=trixie

missing=()
for tool in qemu-system-arm:qemu-system-arm arm-none-eabi-gcc:gcc-arm-none-eabi \
    dpkg-source:dpkg-dev apt-get:apt make:make gcc:gcc; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
[[ -e /usr/lib/arm-none-eabi/newlib/libc.a || -n $(find /usr/lib/arm-none-eabi -name libc.a -print -quit 2>/dev/null) ]] ||
    missing+=(libnewlib-arm-none-eabi)
if ((${#missing[@]})); then
    echo "SKIPPED: no emulated board; install: apt-get install ${missing[*]}" >&2
    exit 3
fi

mkdir -p "$folder"
cd "$folder"
if [[ -e firmware.elf ]]; then
    echo "$folder/firmware.elf is there"
    exit 0
fi

if ! compgen -G 'micropython-*/ports/qemu' >/dev/null; then
    # The same mirror that this system uses, for another release, without touching its settings.
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
    if [[ -z $site ]]; then
        echo "SKIPPED: no emulated board; apt knows no mirror of Debian" >&2
        exit 3
    fi
    mkdir -p apt/lists/partial apt/cache/archives/partial
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" >apt/sources.list
    apt=(apt-get -q -o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=-
        -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User="$(id -un)")
    "${apt[@]}" update
    "${apt[@]}" source micropython
fi
source=$(compgen -G 'micropython-*/' | head -n 1)

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
