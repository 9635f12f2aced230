#!/usr/bin/env bash
# What ./rmsnorm says on machines on which it cannot work: one sentence, and the exit code 2.
# Commands that fail as there take the place of apt's, of CMake and of the compiler. Only
# where a compiler is too old, the CMake that finds out is the real one.
# usage: bad_machines.sh SOURCE_FOLDER
set -euo pipefail
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
copy="$folder/copy"
mkdir "$copy" "$folder/bin"
(cd "$source" && tar cf - --exclude=./build --exclude=./.git .) | tar xf - -C "$copy"
cd "$copy"

instead_of() { # COMMAND < SCRIPT
  { echo '#!/bin/sh' && cat; } >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}

# Runs ./rmsnorm with these commands in front of the machine's own.
expect() { # EXIT_CODE SENTENCE ARGUMENT...
  local wanted=$1 sentence=$2 status=0
  shift 2
  PATH="$folder/bin:$PATH" ./rmsnorm "$@" --device cpu >said 2>&1 || status=$?
  if [ "$status" -eq "$wanted" ] && grep -q "$sentence" said; then return; fi
  printf 'rmsnorm %s: exit code %d, and nothing like "%s":\n' "$*" "$status" "$sentence" >&2
  cat said >&2
  exit 1
}
expect_one_line() { # SENTENCE ARGUMENT...
  expect 2 "$@"
  # The other lines say what was begun.
  if [ "$(grep -cv '^rmsnorm: installing ' said)" -le 1 ]; then return; fi
  printf 'more than one sentence:\n' >&2 && cat said >&2
  exit 1
}

# No network: for apt-get update, that is no error.
instead_of dpkg-query <<<'exit 1'
instead_of sudo <<'END'
test "$1" = -v || exec "$@"
END
instead_of apt-get <<'END'
test "$1" = update || { echo "E: Unable to locate package g++"; exit 100; }
echo "Err:1 http://archive.example trixie InRelease"
echo "W: Failed to fetch http://archive.example/dists/trixie/InRelease  Temporary failure resolving"
END
expect_one_line '^rmsnorm: no packages without a network: ' setup lessons

# One archive of two is out of reach, and the other has no such package: apt's own words.
instead_of apt-get <<'END'
test "$1" = update || { echo "E: Unable to locate package g++"; exit 100; }
echo "Hit:1 http://archive.example trixie InRelease"
echo "W: Failed to fetch http://old.example/dists/trixie/InRelease  Temporary failure resolving"
END
expect 2 '^E: Unable to locate package' setup lessons
expect 2 '^rmsnorm: the packages could not be installed ' setup lessons
expect 2 'setup installs everything' setup everything
rm "$folder"/bin/{dpkg-query,sudo,apt-get}

# A full disk, when CMake configures and when it builds.
for step in --preset --build; do
  instead_of cmake <<<"if [ \$1 = $step ]; then echo text | cat >/dev/full; fi"
  expect_one_line '^rmsnorm: no room is left on the disk of /' lesson 1 --no-install
done

# A build folder that another checkout has made, or this one under another name.
instead_of cmake <<'END'
echo "$*" >>calls
exit 1
END
mkdir -p build/cpu
echo 'CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere' >build/cpu/CMakeCache.txt
expect 2 '^rmsnorm: build/cpu was built in /elsewhere: it is built anew for ' lesson 1
grep -qe '--preset cpu --fresh' calls
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$(realpath .)" >build/cpu/CMakeCache.txt
expect 2 'CMake could not configure' lesson 1
[ "$(grep -ce --fresh calls)" -eq 1 ]

# One that another system has made in the same place, as a container does.
mkdir -p build/cpu
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$(realpath .)" >build/cpu/CMakeCache.txt
echo 'Debian GNU/Linux 99 (none), x86_64' >build/cpu/system
instead_of cmake <<<'exit 1'
expect 2 '^rmsnorm: build/cpu was built on Debian GNU/Linux 99 (none), x86_64: it is built anew' lesson 1
rm -r build "$folder/bin/cmake"

# A ccache that fails is not used.
instead_of ccache <<<'exit 1'
PATH="$folder/bin:$PATH" cmake --preset cpu >said 2>&1 || { cat said >&2; exit 1; }
grep -q 'ccache does not work here, so it is not used' said || { cat said >&2; exit 1; }
rm -r build "$folder/bin/ccache"

# A compiler that is too old, and then one that is not. (What says that it is clang is no clang.)
instead_of old <<'END'
exec g++ -U__GNUC__ -D__GNUC__=11 "$@"
END
CXX="$folder/bin/old" expect_one_line '^rmsnorm: g++ 11.* is too old: g++ 12 or clang 16' lesson 1
instead_of old <<'END'
exec g++ -D__clang__ -D__clang_major__=15 -D__clang_minor__=0 -D__clang_patchlevel__=7 "$@"
END
CXX="$folder/bin/old" expect_one_line '^rmsnorm: clang 15.0.7 is too old: ' lesson 1
CXX=g++ cmake --preset cpu >said 2>&1 || { cat said >&2; exit 1; }
