#!/usr/bin/env bash
# The shared library as others meet it: it exports what its header declares, depends on nothing of
# CUDA or of this project, and can be installed and linked with a C program.
set -euo pipefail

build=$1 header=$2 program=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$1" >&2
  exit 1
}

cmake --install "$build" --prefix "$folder" >"$folder/log" || fail "$(cat "$folder/log")"
library=$(find "$folder" -name 'librmsnorm.so')
[ -n "$library" ] || fail "nothing has been installed: $(cat "$folder/log")"

declared=$(grep -oE '^[a-z_ *]+\brmsnorm_[a-z_]+\(' "$header" |
  grep -oE 'rmsnorm_[a-z_]+\(' | tr -d '(' | sort)
[ "$(wc -l <<<"$declared")" -ge 4 ] || fail "not all functions were found in the header: $declared"
# All but A, which is the name of the version itself.
exported=$(nm -D --defined-only --format=posix "$library" |
  awk '$2 != "A" { print $1 }' | sed 's/@.*//' | sort)
[ "$exported" = "$declared" ] || fail "the library exports other names than its header declares:
$(diff <(echo "$declared") <(echo "$exported"))"

major=$(sed -n 's/^#define RMSNORM_VERSION_MAJOR \([0-9]*\).*/\1/p' "$header")
dynamic=$(readelf -d "$library")
grep -q "SONAME.*\[librmsnorm.so.$major\]" <<<"$dynamic" ||
  fail "its SONAME is not that of version $major: $dynamic"
if grep -E 'NEEDED.*(cuda|fmt|rmsnorm)' <<<"$dynamic"; then fail "it depends on more than C and C++"; fi

"${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror -I "$folder/include" "$program" \
  -L "$(dirname "$library")" -lrmsnorm -o "$folder/program"
LD_LIBRARY_PATH=$(dirname "$library") "$folder/program" ||
  fail "the C program ended with $?"
