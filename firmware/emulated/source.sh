#!/usr/bin/env bash
# MicroPython's sources, unpacked from Debian's source package into the folder named; prints their
# place. Says what is missing and ends with 3 where it can't.
#
#   firmware/emulated/source.sh FOLDER
set -euo pipefail

# The last release of Debian whose source package builds here without a newer libc.
suite=trixie

mkdir -p "$1"
folder=$(realpath "$1")
cd "$folder"
if ! compgen -G 'micropython-*/ports/qemu' >/dev/null; then
    missing=()
    for tool in dpkg-source:dpkg-dev apt-get:apt; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    if ((${#missing[@]})); then
        echo "SKIPPED: no sources of MicroPython; install: apt-get install ${missing[*]}" >&2
        exit 3
    fi
    # The same mirror that this system uses, for another release, without touching its settings.
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
    if [[ -z $site ]]; then
        echo "SKIPPED: no sources of MicroPython; apt knows no mirror of Debian" >&2
        exit 3
    fi
    mkdir -p apt/lists/partial apt/cache/archives/partial
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" >apt/sources.list
    apt=(apt-get -q -o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=-
        -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User="$(id -un)")
    "${apt[@]}" update >&2
    "${apt[@]}" source micropython >&2
fi
source=$(compgen -G 'micropython-*/' | head -n 1)
echo "$folder/${source%/}"
