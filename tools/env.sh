# Copyright (c) 2026 the vmaf_gpu authors
# SPDX-License-Identifier: BSD-2-Clause

# Paths and messages shared by the scripts in this folder; sourced, never run.
# shellcheck shell=bash disable=SC2034

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$root/build
cache=${VMAF_GPU_CACHE:-${XDG_CACHE_HOME:-${HOME:-$build}/.cache}/vmaf_gpu}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
case ${FFMPEG_SRC:-/} in /*) ;; *) export FFMPEG_SRC=$PWD/$FFMPEG_SRC ;; esac
case ${NV_HEADERS_SRC:-/} in /*) ;; *) export NV_HEADERS_SRC=$PWD/$NV_HEADERS_SRC ;; esac
export VMAF_GPU_CACHE=$cache
export VMAF_GPU_KERNEL_CACHE=${VMAF_GPU_KERNEL_CACHE:-$cache/kernels} # see kernels/compile
self=tools/$(basename "$0")
default_release=7.1
jobs=$(nproc 2>/dev/null || echo 2)

# Another python3 or meson may come first in PATH and lack Debian's modules.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
meson=/usr/bin/meson
[ -x "$meson" ] || meson=meson

say() { printf '%s\n' "$*"; }

die() {
    printf '%s: %s\n' "$self" "$*" >&2
    exit 1
}

# Prints the comment at the head of the calling script, below the licence.
usage() { sed -n '5,/^$/{/^#/!d;s/^# \{0,1\}//;p}' "$0"; }

need() {
    local program
    for program; do
        command -v "$program" >/dev/null || die "$program is missing: run tools/setup, or install it (list: tools/packages)"
    done
}

make_folder() { mkdir -p "$1" || die "cannot make the folder $1 (disk full, or not yours?)"; }

digest() { sha256sum | cut -d" " -f1; }

# attempt COMMAND...: runs it in a subshell that ends at the first error, and leaves its status in $status.
# To be called as a plain statement: in an `if` or `||` bash would ignore errors inside COMMAND.
attempt() {
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
}

# logged LOG MESSAGE COMMAND...: one console line; the output goes to LOG, its end to the console on failure, which
# ends the script. A plain statement, too.
logged() {
    local log=$1 message=$2 start=$SECONDS
    shift 2
    make_folder "$(dirname "$log")"
    printf '%s ... ' "$message"
    attempt "$@" >"$log" 2>&1 </dev/null
    if [ "$status" = 0 ]; then
        say "done in $((SECONDS - start)) s"
        return
    fi
    say "failed"
    {
        tail -n 30 "$log"
        say "--- whole log: $log"
        if grep -qi 'no space left on device' "$log"; then
            say "The disk is full: free some space (old builds: $build, downloads: $cache) and run again."
        elif grep -qE 'Failed to fetch|Temporary failure resolving|Could not resolve|Could not connect|Unable to connect' "$log"; then
            say "The network or the package archive is out of reach: check with 'apt-get update' and run again."
        fi
    } >&2
    exit "$status"
}

# One build at a time in a checkout. Scripts called by the holder of the lock pass.
lock_build() {
    [ -z "${VMAF_GPU_BUILD_LOCKED:-}" ] || return 0
    make_folder "$build"
    exec 9>"$build/.lock"
    flock -n 9 || {
        say "waiting for another build in $build"
        flock 9
    }
    export VMAF_GPU_BUILD_LOCKED=1
}
