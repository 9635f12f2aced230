#!/usr/bin/env bash
# The shared library as others meet it: built without the rest of this project, it exports what its
# header declares, depends on nothing of CUDA, and is found by CMake and by pkg-config wherever it was
# moved to.
set -euo pipefail

source=$1 build=$2 nvcc=$3
here=$source/tests/library/outside
if [ ! -x "$nvcc" ]; then
  echo "skipped: nvcc was not found"
  exit 4
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$1" >&2
  exit 1
}
quietly() {
  "$@" >"$folder/log" 2>&1 || fail "$*: $(cat "$folder/log")"
}

# No kernel runs here: so little of them is optimised.
quietly cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CUDA_FLAGS_RELEASE="-O1 -DNDEBUG -Xcicc=-O1" \
  -DCMAKE_CUDA_COMPILER="$nvcc" -DRMSNORM_LIBRARY_ALONE=ON
quietly cmake --build "$build"
quietly cmake --install "$build" --prefix "$folder/first"
mv "$folder/first" "$folder/installed"
library=$(find "$folder/installed" -name 'librmsnorm.so')
[ -n "$library" ] || fail "nothing has been installed: $(cat "$folder/log")"

header=$folder/installed/include/rmsnorm.h
declared=$(grep -oE '^[a-z][a-z_ *]*\brmsnorm_[a-z0-9_]+\(' "$header" |
  grep -oE 'rmsnorm_[a-z0-9_]+\(' | tr -d '(' | sort)
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
if grep -E 'NEEDED.*(cuda|fmt|rmsnorm)' <<<"$dynamic"; then
  fail "it depends on more than C and C++"
fi

outside() { # VERSION: configures the project that wants it
  mkdir "$folder/$1"
  sed "s/rmsnorm 1[.]0/rmsnorm $1/" "$here/CMakeLists.txt" >"$folder/$1/CMakeLists.txt"
  cp "$here"/program.* "$folder/$1"
  cmake -S "$folder/$1" -B "$folder/$1/build" -DCMAKE_PREFIX_PATH="$folder/installed" "${@:2}"
}
quietly outside "$major.0"
quietly cmake --build "$folder/$major.0/build"
for language in c cpp; do quietly "$folder/$major.0/build/program_$language"; done
if outside "$((major + 1)).0" >"$folder/log" 2>&1; then fail "another major version was found"; fi
if outside "$major" -DDLPACK_INCLUDE_DIR= -DCMAKE_FIND_ROOT_PATH="$folder/none" \
  -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY >"$folder/log" 2>&1; then fail "there is no DLPack"; fi
grep -q 'dlpack/dlpack.h was not found: install libdlpack-dev' "$folder/log" ||
  fail "DLPack is not what is missed: $(cat "$folder/log")"

if ! command -v pkg-config >/dev/null; then
  echo "skipped: CMake finds it, and pkg-config is not installed"
  exit 4
fi
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$folder/installed" -name rmsnorm.pc)")
version=$(sed -n 's/^#define RMSNORM_VERSION_M[AI][JN]OR \([0-9]*\).*/\1./p' "$header" | tr -d '\n')
[[ $(pkg-config --modversion rmsnorm) == "$version"* ]] ||
  fail "it is not version $version: $(cat "$PKG_CONFIG_PATH"/*)"
read -ra flags <<<"$(pkg-config --cflags --libs rmsnorm)"
warnings=(-Wall -Wextra -Wpedantic -Werror)
quietly "${CC:-cc}" -std=c99 "${warnings[@]}" "$here/program.c" "${flags[@]}" -o "$folder/program_c"
quietly "${CXX:-c++}" -std=c++17 "${warnings[@]}" "$here/program.cpp" "${flags[@]}" \
  -o "$folder/program_cpp"
for language in c cpp; do
  LD_LIBRARY_PATH=$(dirname "$library") quietly "$folder/program_$language"
done
