# ./rmsnorm check --program: an ordinary CUDA program, with a main() of its own, on the CPU device.
# Sourced by the script rmsnorm, whose functions and variables it uses.
# shellcheck shell=bash disable=SC2154

check_program_help() {
  cat <<'END'
usage: ./rmsnorm check --program FILE.cu... [options] [-- ARGUMENTS]
       ./rmsnorm check --program --each FOLDER [options]

Runs an ordinary CUDA program, with a main() of its own, on the CPU device, in
several orders of its blocks and threads, and says which mistakes were seen.
It needs no GPU.

  -I FOLDER, -D NAME, -std=...  for the compiler, as nvcc has them
  --orders N        how many orders to try; without it, 4
  --steps N         after so many steps, a loop is taken for one that never ends;
                    without it, 2000000000
  --trace           what each line has asked of memory
  --each FOLDER     each .cu file in the folder, as a program of its own
  -- ARGUMENTS      for the program
END
}

check_program() { # FILE... [OPTION...] [-- ARGUMENT...]
  local files=() compiler=() arguments=() orders=4 steps=2000000000 trace='' each='' file
  while [ $# -gt 0 ]; do
    case "$1" in
      --help | -h) check_program_help && return ;;
      --) arguments=("${@:2}") && break ;;
      --orders=* | --steps=* | --each=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
      --orders | --steps)
        if [[ ! ${2-} =~ ^[1-9][0-9]{0,17}$ ]]; then fail 2 "$1 needs a whole number, as in: $1 8"; fi
        if [ "$1" = --orders ]; then orders=$2; else steps=$2; fi
        shift
        ;;
      --each)
        if [ ! -d "${2-}" ]; then fail 2 "--each needs a folder, and '${2-}' is none"; fi
        each=$(realpath "$2")
        shift
        ;;
      --trace) trace=1 ;;
      -I | -D)
        if [ $# -eq 1 ]; then fail 2 "$1 needs a value, as in: $1 NAME"; fi
        set -- "$1$2" "${@:3}" && continue
        ;;
      -I?*)
        file=$(realpath -e "${1#-I}" 2>/dev/null) || fail 2 "there is no folder '${1#-I}'"
        compiler+=("-I$file")
        ;;
      -D?* | -std=c++2?) compiler+=("$1") ;;
      -std=*) ;; # the device's headers need C++20
      -*) fail 2 "check --program has no option '$1' (--help shows them)" ;;
      *)
        file=$(realpath -e "$1" 2>/dev/null) || fail 2 "there is no file '$1'"
        if [ ! -f "$file" ]; then fail 2 "'$1' is no file"; fi
        files+=("$file")
        ;;
    esac
    shift
  done
  # shellcheck disable=SC2034 # the script's
  device=cpu # a GPU cannot be watched
  if [ -n "$each" ]; then
    check_each_program
    return
  fi
  if [ ${#files[@]} -eq 0 ]; then
    fail 2 "check --program takes a file, as in: ./rmsnorm check --program my.cu"
  fi
  build_program || exit
  run_program "$(basename "${files[0]}")"
}

# Builds $files with $compiler's options, and takes the program.
build_program() {
  configure -D "RMSNORM_CHECK_PROGRAM=$(IFS=';' && echo "${files[*]}")" \
    -D "RMSNORM_CHECK_OPTIONS=$(IFS=';' && echo "${compiler[*]}")"
  own_folder
  lock_build
  local log="$here/build/$preset/reader.log" status=0 file messages=''
  with_progress "building for $preset" "$log" cmake --build --preset "$preset" --target watched_program ||
    status=$?
  for file in "${files[@]}"; do messages+=$(messages_about "$file" "$(basename "$file")" "$log"); done
  if [ -n "$messages" ]; then echo "$messages" >&2; fi
  if [ "$status" -eq 0 ]; then
    take_program "$here/build/$preset/common/watched_program"
    return
  fi
  unlock_build
  if [ -z "$messages" ]; then fail_with "$log" "the build failed"; fi
  return 2
}

# Runs $own/watched_program in each order. What it prints in the first is shown, and
# the mistakes of the first that has any.
run_program() { # NAME
  local order report="$own/report" found="$own/found" where='' status='' others=''
  : >"$found"
  for ((order = 0; order < orders; ++order)); do
    rm -f "$report"
    if [ -t 2 ]; then printf '\r\e[Kchecking %s, order %s of %s' "$1" $((order + 1)) "$orders" >&2; fi
    CPU_DEVICE_ORDER=$order CPU_DEVICE_STEPS=$steps CPU_DEVICE_REPORT=$report CPU_DEVICE_BEFORE_CRASH='crash: ' \
      CPU_DEVICE_TRACE=$([ "$order" -gt 0 ] || echo "$trace") \
      "$own/watched_program" "${arguments[@]}" >"$own/printed.$order" 2>"$own/errors.$order" || true
    if [ ! -f "$report" ]; then sed -n 's/^crash: //p' "$own/printed.$order" >"$report"; fi
    if [ ! -s "$report" ]; then echo "it was ended by a signal" >"$report"; fi
    if [ "$order" -eq 0 ]; then
      if [ -t 2 ]; then printf '\r\e[K' >&2; fi
      sed '/^crash: /d' "$own/printed.0"
      cat "$own/errors.0" >&2
      sed -n 's/^trace //p' "$report" >"$own/trace"
    fi
    if [ "${status:-0}" -eq 0 ]; then status=$(sed -n 's/^exit //p' "$report"); fi
    if ! cmp -s "$own/printed.0" "$own/printed.$order" && [ -z "$others" ]; then others=$((order + 1)); fi
    if [ -s "$found" ]; then continue; fi
    grep -v -e '^exit ' -e '^trace ' "$report" >"$found" && where=$((order + 1))
  done
  if [ -t 2 ]; then printf '\r\e[K' >&2; fi
  if [ -s "$found" ]; then
    printf '%-27s FAIL  in order %s of %s:\n' "$1" "$where" "$orders"
    fold -s -w 96 "$found" | sed 's/^/  /; s/ *$//'
  elif [ "${status:-0}" -ne 0 ]; then
    printf '%-27s FAIL  no mistakes seen in %s orders, but its exit status is %s\n' "$1" "$orders" "$status"
  else
    printf '%-27s PASS  no mistakes seen in %s orders\n' "$1" "$orders"
  fi
  if [ -n "$others" ]; then
    echo "  in order $others it prints something else than in the first"
  fi
  if [ -s "$own/trace" ]; then sed 's/^/  /' "$own/trace"; fi
  [ ! -s "$found" ] && [ "${status:-0}" -eq 0 ]
}

# A line or more for each program in the folder $each. The worst exit code is that of all.
check_each_program() {
  local all=("$each"/*.cu) file worst=0 status
  if [ ! -f "${all[0]}" ]; then fail 2 "there is no .cu file in '$each'"; fi
  for file in "${all[@]}"; do
    files=("$file")
    status=0
    if build_program; then
      run_program "$(basename "$file")" >"$own/verdict" 2>/dev/null || status=$?
      grep -a -A 99 -e ' PASS  ' -e ' FAIL  ' "$own/verdict"
    else
      status=2
      printf '%-27s NOT CHECKED  it does not compile\n' "$(basename "$file")"
    fi
    if [ "$status" -gt "$worst" ]; then worst=$status; fi
  done
  return "$worst"
}
