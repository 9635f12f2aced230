#!/usr/bin/env bash
# Asks clang, which knows CUDA, what g++ does not mind in a .cu file and nvcc refuses: a kernel that calls
# the host's functions, the host that calls the device's or a kernel without <<<>>>. What else clang may
# say is left to the compiler that builds the file.
# usage: ask_clang.sh FILE.cu [OPTION OF CLANG...], folders in options from /
# Prints FILE:LINE: SENTENCE. Exit code: 0 nothing, 1 said something, 2 clang cannot say (and why).
set -euo pipefail

file=$(realpath -e "$1")
shift
root=$(cd "$(dirname "$0")/../../.." && pwd)
device=$root/common/cpu_device
clang=${CLANG:-clang++}
command -v "$clang" >/dev/null || { echo "there is no $clang" && exit 2; }
headers=$("$clang" -print-resource-dir)/include

# In a folder of its own, where no header is found by mistake. A byte order mark goes, and <cuda/std/X>
# is <X> on the CPU device.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
sed -e '1s/^\xef\xbb\xbf//' -e 's,<cuda/std/,<,' "$file" >READER.cu

# Of functions for host and device, clang adds some to C++'s own library that nvcc does not have: its own
# headers come last.
ask() { # --cuda-host-only|--cuda-device-only [OPTION...]
  "$clang" -x cuda "$1" --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -fsyntax-only -std=c++20 \
    -D__CUDA_ARCH__=900 -nobuiltininc -idirafter "$headers" \
    -iquote "$(dirname "$file")" "-I$root" -isystem "$device/language/include" \
    -include "$device/compiler/cuda_words.hpp" \
    -Xclang -fno-cuda-host-device-constexpr -Xclang -fcuda-allow-variadic-functions \
    -w -ferror-limit=0 -fno-caret-diagnostics "${@:2}" READER.cu 2>&1 || {
    local status=$?
    if [ "$status" -gt 1 ]; then echo "fatal error: $clang ended with exit code $status"; fi
  }
}

# The host's half says nothing of members and of names with :: that a kernel calls, and the device's only
# that without a doubt: it takes our headers for a GPU's.
says=$(ask --cuda-host-only "$@" && echo "the device's half" && ask --cuda-device-only "$@")

export file
sentences=$(awk '
# The text of the line from a column on.
function text_at(column,  text, i) {
  while ((getline text < path) > 0) if (++i == line) break
  close(path)
  return substr(text, column)
}
# What is called in a column: as it stands there, with what is before it, if that ends with this name; else
# the name.
function called_at(column, name,  text, scope) {
  text = text_at(1)
  scope = substr(text, 1, column - 1)
  scope = match(scope, /[A-Za-z_0-9:<>, ]*::$/) ? substr(scope, RSTART) : ""
  sub(/^.*[ ,]/, "", scope)
  text = substr(text, column)
  match(text, /^[A-Za-z_0-9:~]*/)
  text = substr(text, 1, RLENGTH)
  return name != "" && length(text) >= length(name) && \
         substr(text, length(text) - length(name) + 1) == name ? scope text : name
}
# "S" from "const S<int> [2]".
function plain(type) {
  gsub(/const |volatile /, "", type)
  sub(/ ?[<[(&].*/, "", type)
  return type
}
function quoted(text) {
  if (!match(text, /\047[^\047]*\047/)) return ""
  return substr(text, RSTART + 1, RLENGTH - 2)
}
# What is called, by the words of a message.
function callee(column,  text) {
  if (/call to object of type/) return plain(quoted(message)) "\047s operator()"
  if (/no matching constructor/) return plain(quoted(message))
  if (/no matching function for call/) return called_at(column, quoted(message))
  if (match(message, /overloaded operator[^ ]+/)) {
    text = substr(message, RSTART + 11, RLENGTH - 11)
    return plain(quoted(message)) "\047s " text
  }
  if (/no viable overloaded/) return "operator" quoted(message)
  if (/invalid operands to binary/) {
    text = text_at(column)
    match(text, /^[-+*\/%<>=!&|^]*/)
    return "operator" substr(text, 1, RLENGTH)
  }
  if (/invalid range expression/) return plain(quoted(message)) "\047s begin()"
  if (match(message, / to \047[^\047]*\047/)) return plain(quoted(substr(message, RSTART)))
  return ""
}
# Whether it stands in sizeof(...) or the like, where nothing is called.
function is_unevaluated(column,  text) {
  text = substr(text_at(1), 1, column - 1)
  if (!match(text, /.*(sizeof|decltype|noexcept|requires)/)) return 0
  text = substr(text, RLENGTH + 1)
  return gsub(/[(]/, "", text) > gsub(/[)]/, "", text)
}
function say(sentence) {
  print line "\t" (path == "READER.cu" ? file : path) ":" line ": " sentence
  is_open = 0
}
function cannot_call(name,  twin) {
  if (name == "") name = "a function of the host\047s"
  twin = name
  if (sub(/^(::)?std::/, "", twin) && twin ~ /^(max|min)$/) twin = " (" twin "() without std:: has one)"
  else twin = ""
  say("a kernel cannot call " name ": it has no __device__" twin)
}
# In a file with headers of cuda::std, which are those of std here, a function may be of either.
function is_doubtful() { return has_cuda_std && !is_of_reader() }
function is_of_reader() { return index($0, folder) == 1 || index($0, "READER.cu:") == 1 }

BEGIN {
  file = ENVIRON["file"]
  folder = file
  sub(/[^\/]*$/, "", folder)
  while ((getline text < file) > 0) if (text ~ /<cuda\/std\//) has_cuda_std = 1
  close(file)
}

/^the device\047s half$/ { of_device = 1 }

/(^|: )(fatal )?error: / {
  is_open = match($0, /:[0-9]+:[0-9]+: (fatal )?error: /)
  if (is_open) {
    path = substr($0, 1, RSTART - 1)
    split(substr($0, RSTART + 1, RLENGTH), place, ":")
    line = place[1]
    message = substr($0, RSTART + RLENGTH)
    is_open = path == "READER.cu" || index(path, folder) == 1
  }
  if (/fatal error: /) broken = broken == "" ? $0 : broken
  is_reference = message ~ /^reference to __host__ /
  if (of_device && !is_reference) is_open = 0
  if (is_open && is_unevaluated(place[2])) is_open = 0
  if (is_open) name = is_reference ? called_at(place[2], quoted(message)) : callee(place[2])
}
!is_open { next }
/error: reference to __device__ function .* in __host__ function/ {
  say("the host\047s code cannot call " called_at(place[2], quoted(message)) ": it has no __host__")
}
/error: kernel call to non-global function/ { say(quoted(message) " has no __global__") }
/error: call to global function .* not configured/ {
  name = quoted(message)
  say(name " is a kernel: call it as " name "<<<blocks, threads>>>(arguments), from the host\047s code")
}
/error: kernel function type .* must have void return type/ {
  say("a kernel returns nothing: it has to be __global__ void")
}
/error: dynamic initialization is not supported for __/ {
  say("of the device\047s variables, an initialiser has to be a constant")
}
/note: .*declared here/ && is_reference {
  if (is_doubtful() || message !~ /in __(global|device)__ function/) is_open = 0
  else if (message !~ /__host__ variable/) cannot_call(name)
  else if (is_of_reader()) say("a kernel cannot use " name ": it is the host\047s")
}
/note: .*: call to __host__ function from __(global|device)__ function/ {
  if (is_doubtful()) is_open = 0
  else cannot_call(name)
}
/note: .*: call to __device__ function from __host__ function/ {
  say("the host\047s code cannot call " name ": it has no __host__")
}

END { if (broken != "") print "0\tnot asked: " broken }
' <<<"$says" | sort -n | uniq | cut -f 2-)

found=$(grep -v '^not asked: ' <<<"$sentences" || true)
if [ -n "$found" ]; then echo "$found" && exit 1; fi
if [ -n "$sentences" ]; then echo "${sentences#not asked: }" && exit 2; fi
