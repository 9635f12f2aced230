#!/bin/sh
# usage: sanitizer.sh COMPUTE_SANITIZER TOOL PROGRAM
# Runs the program's tests tagged [sanitizer] under a tool of compute-sanitizer: memcheck, racecheck,
# initcheck or synccheck; those tagged [memory] under the first and third alone. The others report
# errors in right kernels that order threads by flags, and by barriers that wait for copies.
# Exit code: 0 clean, 4 skipped (CTest's word for "cannot run here"), else not clean.
set -u
sanitizer=$1
tool=$2
tests=$3
tags="[sanitizer]"
case "$tool" in
  memcheck | initcheck) tags="[sanitizer],[memory]" ;;
  racecheck) export RMSNORM_TESTS_ARE_SLOW=1 ;; # it takes minutes for what takes others seconds
esac

if ! command -v "$sanitizer" >/dev/null; then
  echo "skipped: compute-sanitizer was not found (it comes with the CUDA Toolkit)"
  exit 4
fi
# Without it first: where there is no GPU the tests know, and say why.
"$tests" "$tags" || exit $?
exec "$sanitizer" --tool "$tool" --error-exitcode 9 "$tests" "$tags"
