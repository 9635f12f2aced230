#!/usr/bin/env bash
# Asks clang, which knows CUDA, what g++ does not mind in a .cu file and nvcc refuses: a kernel that calls
# the host's functions, the host that calls the device's or a kernel without <<<>>>. What else clang may
# say is left to the compiler that builds the file.
# usage: ask_clang.sh FILE.cu [OPTION OF CLANG...]
# Prints FILE:LINE: SENTENCE. Exit code: 0 nothing, 1 said something, 2 clang cannot say (and why).
set -euo pipefail

file=$1
shift
root=$(cd "$(dirname "$0")/../../.." && pwd)
device=$root/common/cpu_device
clang=${CLANG:-clang++}
command -v "$clang" >/dev/null || { echo "there is no $clang" && exit 2; }

# Of functions for host and device, clang adds some to C++'s own library that nvcc does not have: its own
# headers come last. <cuda/std/X> is <X> on the CPU device.
status=0
says=$({ printf '# 1 "%s"\n' "$file" && sed 's,<cuda/std/,<,' "$file"; } |
  "$clang" -x cuda --cuda-host-only -nocudainc -nocudalib -fsyntax-only -std=c++20 -D__CUDA_ARCH__=900 \
    -nobuiltininc -idirafter "$("$clang" -print-resource-dir)/include" \
    -iquote "$(dirname "$file")" "-I$root" -isystem "$device/language/include" \
    -include "$device/compiler/cuda_words.hpp" \
    -Xclang -fno-cuda-host-device-constexpr -Xclang -fcuda-allow-variadic-functions \
    -w -ferror-limit=0 -fno-caret-diagnostics "$@" - 2>&1) || status=$?

awk -v file="$file" -v status="$status" '
# What is called in a column of a line of a file, as it is written there.
function name_at(column,  text, i) {
  while ((getline text < path) > 0) if (++i == line) break
  close(path)
  text = substr(text, column)
  match(text, /^[A-Za-z_0-9:]*/)
  return substr(text, 1, RLENGTH)
}
function say(sentence) {
  if (!(path line sentence in said)) print path ":" line ": " sentence
  said[path line sentence] = any = 1
  is_open = 0
}
function cannot_call(name) {
  say("a kernel cannot call " name ": it has no __device__" \
      (name ~ /^(::)?std::(max|min)$/ ? " (" substr(name, length(name) - 2) "() without std:: has one)" : ""))
}

BEGIN {
  folder = file
  sub(/[^\/]*$/, "", folder)
  while ((getline text < file) > 0) if (text ~ /<cuda\/std\//) has_cuda_std = 1
  close(file)
}

/: (fatal )?error: / {
  split($0, place, ":")
  path = place[1]
  line = place[2]
  is_open = index(path, folder) == 1
  if (broken == "" && (/: fatal error: / || !is_open)) broken = $0
  quoted = $0
  sub(/^[^\047]*\047/, "", quoted)
  sub(/\047.*/, "", quoted)
  type = quoted
  sub(/[ <].*/, "", type)
  called = ""  # what it is, if the column does not say
  if (/call to object of type/) called = type "\047s operator()"
  if (/no matching constructor/) called = type
  if (match($0, /overloaded operator[^ ]+/)) called = type "\047s " substr($0, RSTART + 11, RLENGTH - 11)
}
!is_open { next }
/error: reference to __host__ function .* in __(global|device)__ function/ { cannot_call(quoted) }
/error: kernel call to non-global function/ { say(quoted " has no __global__") }
/error: call to global function .* not configured/ {
  say(quoted " is a kernel: call it as " quoted "<<<blocks, threads>>>(arguments), from the host\047s code")
}
/error: kernel function type .* must have void return type/ {
  say("a kernel returns nothing: it has to be __global__ void")
}
/error: dynamic initialization is not supported for __/ {
  say("of the device\047s variables, an initialiser has to be a constant")
}
/note: .*: call to __host__ function from __(global|device)__ function/ {
  if (has_cuda_std && index($0, folder) != 1) {  # it may be of CUDA\047s library, or of C++\047s
    is_open = 0
    next
  }
  cannot_call(called == "" ? name_at(place[3]) : called)
}
/note: .*: call to __device__ function from __host__ function/ {
  say("the host\047s code cannot call " name_at(place[3]) ": it has no __host__")
}

END {
  if (any) exit 1
  if (broken == "" && status > 1) broken = "clang ended with exit code " status
  if (broken != "") print "clang: " broken
  exit broken == "" ? 0 : 2
}
' <<<"$says"
