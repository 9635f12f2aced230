#!/usr/bin/env bash
# `pip install ./library` gives a package with its library in it, of the header's version, and with the
# extension where Python's headers are.
set -euo pipefail

source=$1 build=$2 nvcc=$3
skip() {
  echo "skipped: $1"
  exit 4
}
[ -x "$nvcc" ] || skip "nvcc was not found"
python3 -m pip --version >/dev/null 2>&1 || skip "pip is not installed"
python3 -c 'import scikit_build_core' 2>/dev/null || skip "scikit-build-core is not installed"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$1" >&2
  exit 1
}

CUDACXX=$nvcc python3 -m pip install --no-build-isolation --no-deps --no-index \
  --target "$folder/site" -C build-dir="$build" "$source/library" >"$folder/log" 2>&1 ||
  fail "$(cat "$folder/log")"
header=$source/library/include/rmsnorm.h
version=$(sed -n 's/^#define RMSNORM_VERSION_.* \([0-9]*\) .*/\1/p' "$header" | paste -sd.)
[ -d "$folder/site/rmsnorm-$version.dist-info" ] || fail "it is not $version: $(ls "$folder/site")"
wanted=librmsnorm.so
if [ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then
  wanted="_fast.abi3.so $wanted"
fi
found=$(find "$folder/site" -name '*.so*' -printf '%f\n' | sort | paste -sd' ')
[ "$found" = "$wanted" ] || fail "of $wanted, there is: $(find "$folder/site")"

python3 -c 'import torch' 2>/dev/null || skip "it is installed, but PyTorch is not"
cd "$folder"
said=$(PYTHONPATH=$folder/site python3 -B -c '
import torch, rmsnorm
print(*rmsnorm.version(), sep=".")
try:
    rmsnorm.rms_norm(torch.zeros(2, 8), None, 1e-6)
except ValueError as error:
    print(error)')
[ "$said" = "$version
x is on the CPU: it needs to be on a CUDA device" ] || fail "it said: $said"
