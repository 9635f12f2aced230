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
  --input FILE      what the program reads from stdin, in each order; "-" is what
                    comes on stdin here; without it, nothing
  --each FOLDER     each .cu file in the folder, as a program of its own
  -- ARGUMENTS      for the program
END
}

check_program() { # FILE... [OPTION...] [-- ARGUMENT...]
  local files=() compiler=() folders=() arguments=() orders=4 steps=2000000000 trace='' each='' input='' file
  while [ $# -gt 0 ]; do
    case "$1" in
      --help | -h) check_program_help && return ;;
      --) arguments=("${@:2}") && break ;;
      --orders=* | --steps=* | --each=* | --input=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
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
      --input)
        if [ "${2-}" != - ] && [ ! -r "${2-}" ]; then fail 2 "--input needs a file, and '${2-}' is none"; fi
        input=$2
        shift
        ;;
      -I | -D)
        if [ $# -eq 1 ]; then fail 2 "$1 needs a value, as in: $1 NAME"; fi
        set -- "$1$2" "${@:3}" && continue
        ;;
      -I?*)
        file=$(realpath -e "${1#-I}" 2>/dev/null) || fail 2 "there is no folder '${1#-I}'"
        # CUDA's own headers: the device has others.
        if [ ! -e "$file/cuda_runtime_api.h" ]; then folders+=("$file"); fi
        ;;
      -D?* | -std=c++2?) compiler+=("${1//;/\\;}") ;;
      # The device's headers need C++20; the rest is for a GPU's code.
      -std=* | --std=* | -O* | -g | -G | -lineinfo | -arch=* | -gencode=* | -rdc=*) ;;
      -arch | -gencode) shift ;;
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

# Builds $files with $compiler's options and the headers of $folders, and takes the program. At the same time,
# clang says which functions a kernel may not call.
build_program() {
  configure -D "RMSNORM_CHECK_PROGRAM=$(IFS=';' && echo "${files[*]}")" \
    -D "RMSNORM_CHECK_FOLDERS=$(IFS=';' && echo "${folders[*]}")" \
    -D "RMSNORM_CHECK_OPTIONS=$(IFS=';' && echo "${compiler[*]}")"
  own_folder
  lock_build
  local log="$here/build/$preset/reader.log" status=0 file headers messages='' said asked
  ask_clang_about_program &
  asked=$!
  with_progress "building for $preset" "$log" cmake --build --preset "$preset" --target watched_program ||
    status=$?
  mapfile -t headers < <(headers_with_errors "$log")
  for file in "${headers[@]}" "${files[@]}"; do
    said=$(messages_about "$file" "$(basename "$file")" "$log")
    if [[ $messages != *"$said"* ]]; then messages+=$said$'\n'; fi
  done
  wait "$asked"
  if [ -s "$own/clang.said" ] && [ "$status" -eq 0 ]; then
    messages+=$(cat "$own/clang.said")$'\n'
    status=1
  fi
  if [ -z "$messages" ] && [ "$status" -ne 0 ]; then
    messages=$(grep -E ': (fatal )?error: |undefined reference to' "$log" | head -n 20)
    messages+=${messages:+$'\n'}
  fi
  printf '%s' "$messages" >&2
  if [ "$status" -eq 0 ]; then
    take_program "$here/build/$preset/common/watched_program"
    return
  fi
  unlock_build
  if [ -z "$messages" ] && [ -z "$each" ]; then fail_with "$log" "the build failed"; fi
  return 2
}

# Of the headers that were rewritten, those with errors.
headers_with_errors() { # LOG
  sed -nE 's/^(.*):[0-9]+:[0-9]+: (fatal )?error: .*/\1/p' "$1" | sort -u |
    grep -xFf <(grep -ohs '[^ ]*' "$here/build/$preset/common/rewritten/watched_program"/*.d)
}

ask_clang_about_program() {
  local file said
  if [ -n "$build_lock" ]; then exec {build_lock}>&-; fi # the build is the parent's
  : >"$own/clang.said"
  for file in "${files[@]}"; do
    said=$("$here/common/cpu_device/compiler/ask_clang.sh" "$file" "${folders[@]/#/-I}" "${compiler[@]}") ||
      if [ $? -eq 1 ]; then printf '%s\n' "${said//"$file:"/"$(basename "$file"):"}" >>"$own/clang.said"; fi
  done
}

# Runs $own/watched_program in each order. What it prints in the first is shown, and
# the mistakes of the first that has any. Each reads $input from its begin.
run_program() { # NAME
  local order report="$own/report" found="$own/found" where='' status='' others='' code odd=''
  : >"$found"
  : >"$own/notes"
  if [ "$input" = - ]; then
    cat >"$own/stdin"
    input="$own/stdin"
  fi
  for ((order = 0; order < orders; ++order)); do
    rm -f "$report"
    if [ -t 2 ]; then printf '\r\e[Kchecking %s, order %s of %s' "$1" $((order + 1)) "$orders" >&2; fi
    run_in_order "$order"
    if [ ! -f "$report" ]; then sed -n 's/^crash: //p' "$own/printed.$order" >"$report"; fi
    if [ ! -s "$report" ] && kill -l $((code - 128)) >/dev/null 2>&1 && [ "$code" -gt 128 ]; then
      echo "it was ended by a signal, SIG$(kill -l $((code - 128)))" >"$report"
    elif [ ! -s "$report" ]; then
      echo "it ended with $code before its end: does it call _exit()?" >"$report"
    fi
    if [ "$order" -eq 0 ]; then
      if [ -t 2 ]; then printf '\r\e[K' >&2; fi
      sed '/^crash: /d' "$own/printed.0"
      cat "$own/errors.0" >&2
      sed -n 's/^trace //p' "$report" >"$own/trace"
    fi
    if [ "${status:-0}" -eq 0 ]; then
      status=$(sed -n 's/^exit //p' "$report")
      if [ "${status:-0}" -ne 0 ]; then odd=$order; fi
    fi
    if ! cmp -s "$own/printed.0" "$own/printed.$order" && [ -z "$others" ]; then
      others=$((order + 1))
      sed -n 's/^old //p' "$report" >"$own/old"
    fi
    sed -n 's/^note /note: /p' "$report" >>"$own/notes"
    if [ -s "$found" ]; then continue; fi
    if mistakes >"$found"; then where=$((order + 1)); fi
  done
  if [ -t 2 ]; then printf '\r\e[K' >&2; fi
  local tried="$orders orders"
  if [ "$orders" -eq 1 ]; then tried='1 order'; fi
  if [ -s "$found" ]; then
    printf '%-27s FAIL  in order %s of %s:\n' "$1" "$where" "$orders"
    shown <"$found"
  elif [ "${status:-0}" -ne 0 ]; then
    if [ "$odd" -gt 0 ]; then tried+=", but in order $((odd + 1))"; else tried+=', but'; fi
    printf '%-27s FAIL  no mistakes seen in %s its exit status is %s\n' "$1" "$tried" "$status"
  else
    printf '%-27s PASS  no mistakes seen in %s\n' "$1" "$tried"
  fi
  sort -u "$own/notes" | shown
  if [ -n "$others" ]; then
    echo "  in order $others it prints something else than in the first"
    shown <"$own/old"
  fi
  if [ -s "$found" ]; then
    show_steps $((where - 1)) has_same_mistake
  elif [ "${status:-0}" -ne 0 ]; then
    show_steps "$odd" has_same_status
  else
    show_steps $((${others:-1} - 1)) prints_something_else
  fi
  if [ -s "$own/trace" ]; then sed 's/^/  /' "$own/trace"; fi
  [ ! -s "$found" ] && [ "${status:-0}" -eq 0 ]
}

mistakes() {
  grep -v -e '^exit ' -e '^trace ' -e '^note ' -e '^old ' -e '^turns\{0,1\} ' "$report"
}

has_same_mistake() {
  [ "$(mistakes | head -n 1 | sed 's/ (kernel .*//')" = "$(head -n 1 "$found" | sed 's/ (kernel .*//')" ]
}
has_same_status() { [ "$(sed -n 's/^exit //p' "$report")" = "$status" ]; }
prints_something_else() { ! cmp -s "$own/printed.0" "$own/printed.steps"; }

# Prints what of this order leads to what COMMAND sees. As much as possible is made as usual again; of the times at which
# another block goes on at an atomic operation, as few are left as halves lead to, or one.
show_steps() { # ORDER COMMAND
  local order=$1 command=$2 usual='' part first=0 last=0 all low middle until=$((SECONDS + 30))
  if [ "$order" -eq 0 ] || is_still_so 'turns values streams threads blocks' ''; then return; fi # the order is not to blame
  if ! is_still_so '' ''; then return; fi
  for part in turns values streams threads blocks; do
    if is_still_so "$usual $part" ''; then usual+=" $part"; fi
  done
  if [[ $usual != *turns* ]]; then
    all=$(sed -n 's/^turns //p' "$own/steps") last=$all
    for ((low = 0; low + 1 < last; )); do # until low it is not so, until last it is
      middle=$(((low + last) / 2))
      if is_still_so "$usual" "0,$middle"; then last=$middle; else low=$middle; fi
    done
    for ((low = last; first + 1 < low; )); do # from low on it is not so, from first on it is
      middle=$(((first + low) / 2))
      if is_still_so "$usual" "$middle,$last"; then first=$middle; else low=$middle; fi
    done
    for ((low = 0; low < all && last - first > 1; ++low)); do # one may be enough, maybe another
      if is_still_so "$usual" "$low,$((low + 1))"; then first=$low last=$((low + 1)); fi
    done
  fi
  echo "  needed for this, all else as in order 1:"
  {
    if [[ $usual != *blocks* ]]; then echo "the blocks begin $(in_words "$order")"; fi
    if [[ $usual != *threads* ]]; then echo "the threads of a block begin $(in_words "$order")"; fi
    if [[ $usual != *streams* ]]; then echo "streams work as early as they may"; fi
    if [[ $usual != *values* ]]; then echo "loads of flags get old values"; fi
    if [[ $usual != *turns* ]]; then sed -n 's/^turn //p' "$own/steps"; fi
    if [ $((last - first)) -gt 8 ]; then echo "and so on, at $((last - first)) atomic operations"; fi
  } | shown
}

# Whether show_steps's $command sees the same if these parts of the order are as usual. $own/steps is the report then.
is_still_so() { # USUAL TURNS
  local limit=$((until - SECONDS))
  if [ "$limit" -le 0 ]; then return 1; fi
  if [ -t 2 ]; then printf '\r\e[Klooking for the steps that matter' >&2; fi
  rm -f "$report"
  CPU_DEVICE_USUAL=$1 CPU_DEVICE_TURNS=$2 run_in_order "$order" steps
  if [ -t 2 ]; then printf '\r\e[K' >&2; fi
  [ -f "$report" ] && "$command" && cp "$report" "$own/steps"
}

in_words() { # ORDER
  if [ "$1" -eq 1 ]; then echo 'with the last'; else echo 'somewhere between'; fi
}

shown() {
  fold -s -w 96 | sed 's/^/  /; s/ *$//'
}

# The exit code is in $code. It may take $limit seconds, if there is one.
run_in_order() { # ORDER [NAME]
  local name=${2:-$1}
  code=0
  { # without the shell's own words about a signal
    CPU_DEVICE_ORDER=$1 CPU_DEVICE_STEPS=$steps CPU_DEVICE_REPORT=$report CPU_DEVICE_BEFORE_CRASH='crash: ' \
      CPU_DEVICE_TRACE=$([ "$1" -gt 0 ] || echo "$trace") \
      ${limit:+timeout "$limit"} "$own/watched_program" "${arguments[@]}" \
      <"${input:-/dev/null}" >"$own/printed.$name" 2>"$own/errors.$name" ||
      code=$?
  } 2>/dev/null
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
