# ./rmsnorm exercise: the reader's copies of the exercises, in exercises/, which git ignores. A project
# is an exercise of no lesson: it has a name and no number, and our solution is among the tests.
# Sourced by the script rmsnorm, whose functions and variables it uses.
# shellcheck shell=bash disable=SC2154

# What the reader's folder holds: SLUG.cu, SLUG.given, as which it began, and SLUG.state, three lines:
# how many hints were shown, the outcome of the last check, and the file that was checked.
copies="$here/exercises"

exercise_help() {
  cat <<'END'
usage: ./rmsnorm exercise [N|SLUG] [--hint | --solution | --reset | --watch]

  exercise              how far you are
  exercise 4            check your copy, exercises/04_warp_reduce.cu; the first
                        time, make it
  exercise 4 --watch    the same, again after each save
  exercise 4 --hint     a hint; one more each time, three in all
  exercise 4 --solution the difference between your copy and the lesson's kernel
  exercise 4 --reset    begin again; the old copy is kept beside the new one

After the last lesson there are three projects, gated_norm, layer_norm and
softmax: the same, but that ours is shown when yours has reached its goals, not
before.

Checks run on the CPU device. With --device cuda a kernel that is right is
timed, too: beside the lesson's, or, in a project, against the roof, which moves
as many bytes.
END
}

exercise() {
  local slug='' action=check option
  for option in "$@"; do
    case "$option" in
      --help | -h) exercise_help && return ;;
      --hint | --solution | --reset | --watch)
        if [ "$action" != check ]; then fail 2 "one of --$action and $option at a time"; fi
        action=${option#--}
        ;;
      -*) fail 2 "exercise has no option '$option' (./rmsnorm exercise --help shows them)" ;;
      *)
        if [ -n "$slug" ]; then fail 2 "one exercise at a time"; fi
        slug=$(slug_of "$option" || project_of "$option") ||
          fail 2 "there is no lesson '$option' (./rmsnorm list shows them), nor a project"
        if [ ! -f "$here/lessons/$slug/goals.cpp" ]; then
          fail 2 "the exercise of $slug is on its page alone: it cannot be checked"
        fi
        ;;
    esac
  done
  if [ -z "$slug" ]; then
    if [ "$action" != check ]; then fail 2 "which exercise? as in: ./rmsnorm exercise 4 --$action"; fi
    exercise_overview
    return
  fi
  if [ "$action $device" = "check cuda" ] && ! has_gpu; then
    fail 3 "there is no GPU to time exercises/$slug.cu on"
  fi
  "exercise_$action" "$slug"
}

is_project() { [[ $1 != [0-9]* ]]; } # SLUG

project_of() { # NAME
  local file
  for file in "$here"/lessons/[a-z]*/goals.cpp; do
    if [ "$1" = "$(basename "$(dirname "$file")")" ]; then echo "$1" && return; fi
  done
  return 1
}

# What an exercise is given in: a project's file, or an edit of the lesson's kernel.
source_of() { # SLUG
  if is_project "$1"; then echo "$here/lessons/$1/exercise.cu"; else echo "$here/lessons/$1/exercise.edit"; fi
}

# Makes the file that an exercise begins with, SLUG.given, of the lesson as it is now.
make_given() { # SLUG
  local given="$copies/$1.given"
  { mkdir -p "$copies" && : >"$given.new"; } || fail 2 "exercises/$1.cu cannot be written"
  if is_project "$1"; then
    cp "$(source_of "$1")" "$given.new"
  else
    has_what_it_needs || setup lessons
    (cd "$here" && cmake -D EDIT="lessons/$1/exercise.edit" -D COPY="$given.new" -D AS=PLAIN \
      -P cmake/Edits.cmake >&2) || fail 2 "lessons/$1/exercise.edit does not fit its kernel"
  fi
  mv "$given.new" "$given"
}

# What it is called on the command line: 04_warp_reduce -> 4, softmax -> softmax.
exercise_name() {
  local number=${1%%_*}
  if is_project "$1"; then echo "$1"; else echo "${number#0}"; fi
}

# Whose kernel is the solution.
whose() { if is_project "$1"; then echo "our kernel"; else echo "the lesson's kernel"; fi; } # SLUG

# A line of the state of an exercise, or the default.
exercise_state() { # SLUG LINE DEFAULT
  local line=''
  if [ -f "$copies/$1.state" ]; then line=$(sed -n "$2p" "$copies/$1.state"); fi
  if [ "$2" -eq 1 ]; then line=${line//[!0-9]/}; fi # the number of hints
  echo "${line:-$3}"
}

exercise_remember() { # SLUG HINTS OUTCOME FILE_CHECKSUM
  printf '%s\n' "$2" "$3" "$4" >"$copies/$1.state.new"
  mv "$copies/$1.state.new" "$copies/$1.state"
}

exercise_outcome() { # SLUG
  local copy="$copies/$1.cu" checked
  checked=$(exercise_state "$1" 3 never)
  if [ ! -f "$copy" ] || cmp -s "$copy" "$copies/$1.given"; then
    echo "not begun"
  elif [ "$checked" = never ]; then
    echo "not checked"
  elif [ "$checked" != "$(cksum <"$copy")" ]; then
    echo "changed"
  else
    exercise_state "$1" 2 ""
  fi
}

exercise_overview() {
  local slug outcome done=0 all=0 next=''
  for slug in "$here"/lessons/*/goals.cpp; do # the projects come last
    slug=$(basename "$(dirname "$slug")")
    outcome=$(exercise_outcome "$slug")
    all=$((all + 1))
    if [ "$outcome" = reached ]; then
      done=$((done + 1))
    else
      next=${next:-$(exercise_name "$slug")}
    fi
    sed -n '/^+*\/\/ Goal /{ s,^+*// Goal *,,; s/[:,]*$//; /\.$/!s/$/ .../; p; }' "$(source_of "$slug")" |
      fold -s -w 46 |
      awk -v slug="$slug" -v outcome="$outcome" '{
        sub(/ $/, "")
        printf "%-19s %-11s  %s\n", slug, outcome, $0
        slug = outcome = ""
      }'
  done
  echo "$done of $all goals reached"
  if [ -n "$next" ]; then
    note "next: ./rmsnorm exercise $next"
  else
    cat <<'END'

You have written every kernel of this ladder, and two that it does not have.
Where to go:

  docs/going_further.md    production kernels that you can read now; other ladders
  library/README.md        the lessons put together: every shape, type and view
  docs/contributing.md     an operation or a lesson of your own
  ./rmsnorm check FILE.cu  is a kernel of yours right, on many shapes?
END
  fi
}

# Makes the reader's copy if there is none. What it began as stays, whatever becomes of the lesson.
exercise_begin() { # SLUG
  local copy="$copies/$1.cu"
  if [ ! -f "$copy" ] || [ ! -f "$copies/$1.given" ]; then make_given "$1"; fi
  if [ -f "$copy" ]; then return; fi
  { cp "$copies/$1.given" "$copy.new" && mv "$copy.new" "$copy"; } ||
    fail 2 "exercises/$1.cu cannot be written"
  note "your copy is exercises/$1.cu: change what stands between >>> and <<<"
}

exercise_check() { # SLUG
  local wanted=$device status=0
  exercise_begin "$1"
  device=cpu # goals are counted there
  configure
  exercise_check_copy "$1" || status=$?
  if [ "$wanted" = cuda ]; then
    case "$status" in
      0 | 4) exercise_time "$1" || return ;;
      *) note "it will be timed when it is right" ;;
    esac
  fi
  return "$status"
}

# Builds the copy, checks it, and says what to do next. The build must have been configured.
exercise_check_copy() { # SLUG
  local copy="$copies/$1.cu" again status=0 checksum outcome
  again="./rmsnorm exercise $(exercise_name "$1")"
  checksum=$(cksum <"$copy")
  exercise_warn_outside "$1"
  if exercise_build "$1" "my_$1"; then
    take_program "$here/build/$preset/lessons/my_$1"
    "$own/my_$1" || status=$?
    if [ "$status" -eq 0 ] && exercise_spills "$1"; then status=4; fi
    case "$status" in
      0)
        outcome=reached
        note "done. What $(whose "$1") does differently: $again --solution"
        case "$1" in # kernels with a row in registers
          0[89]_* | 1* | *_norm | softmax)
            note "not judged: whether nvcc issues the loads first, which cuobjdump -sass shows (lesson 08)"
            ;;
        esac
        if ! is_project "$1"; then note "next: $(command_after "$1")"; fi
        ;;
      4) outcome=right && note "right, but not there yet (a hint: $again --hint)" ;;
      *) outcome=wrong && note "exercises/$1.cu is wrong (a hint: $again --hint)" ;;
    esac
  else
    status=2
    outcome="no compile"
    note "exercises/$1.cu does not compile"
  fi
  if [ "$checksum" != "$(cksum 2>/dev/null <"$copy")" ]; then # an editor has saved it
    note "exercises/$1.cu was saved meanwhile: lines shown above may be of the new text"
  fi
  exercise_remember "$1" "$(exercise_state "$1" 1 0)" "$outcome" "$checksum"
  return "$status"
}

# Whether a kernel keeps more of a thread's variables in memory than the lesson's own, or than our
# solution: registers have run out, or an array has an index that the compiler does not know. The CPU
# device has no registers, so that takes nvcc.
exercise_spills() { # SLUG
  local bytes kernel ours
  if [ -z "$registers" ]; then
    has_nvcc || note "not judged: whether variables stay in registers, which takes nvcc"
    return 1
  fi
  read -r bytes kernel < <(largest_stack_frame <"$registers")
  if [ "$bytes" -eq 0 ]; then return 1; fi
  status_of ours ptxas_registers "$(kernel_of "$1")"
  if [ "$(cat "$own/ours.status")" -ne 0 ]; then return 1; fi
  read -r ours _ < <(largest_stack_frame <"$own/ours.log")
  if [ "$bytes" -le "$ours" ]; then return 1; fi
  printf '%-20s NOT YET  no stack frame of more than %s bytes per thread (nvcc, sm_90):\n' "$1" "$ours"
  printf '  %s bytes in %s\n' "$bytes" "$kernel"
}

# What ptxas says of the kernels: the most bytes of a stack frame, and whose it is.
largest_stack_frame() {
  awk '
    /Function properties for/ { kernel = $NF }
    /bytes stack frame/ && $1 >= most { most = $1; of = kernel }
    END { print most + 0, of }' | { c++filt 2>/dev/null || cat; } |
    sed 's/(anonymous namespace):://g; s/^\([0-9]*\) void /\1 /; s/([^()]*)$//'
}

exercise_build() { # SLUG TARGET...
  build_of_reader "$copies/$1.cu" "exercises/$1.cu" "${@:2}"
}

# The text outside the marks, but for the comment at the top.
outside_of_marks() {
  tr -d '\r' <"$1" | awk '
    /^[^\/]/ || /^$/ { body = 1 }
    /^ *\/\/ >>> your turn/ { inside = 1; print "marks" }
    body && !inside { print }
    /^ *\/\/ <<</ { inside = 0 }'
}

exercise_warn_outside() { # SLUG
  local copy="$copies/$1.cu"
  if ! diff -q <(outside_of_marks "$copies/$1.given") <(outside_of_marks "$copy") \
    >/dev/null; then
    note "exercises/$1.cu differs from the exercise outside of the marks >>> and <<<, too"
  fi
}

# The lesson's kernel, or our solution of a project.
kernel_of() { # SLUG
  if is_project "$1"; then
    echo "$here/tests/operations/$1/solution.cu"
  else
    echo "$here/lessons/$1/rms_norm.cu"
  fi
}

# The exercise with the lesson's kernel in it, or a project's with ours: without variants and tags,
# under the exercise's title.
exercise_solved() { # SLUG
  local kernel
  kernel=$(kernel_of "$1")
  sed '/^[^/]/,$d' "$copies/$1.given"
  awk '
    /^[^\/]/ || /^$/ { body = 1 }
    /^\/\/ \[variant\]$/ { variant = !variant; skip_empty = !variant; next }
    variant || !body || /^ *\/\/ \[[a-z_0-9]+\]$/ { next }
    skip_empty && /^$/ { skip_empty = 0; next }
    { skip_empty = 0; print }' "$kernel"
}

exercise_solution() { # SLUG
  if is_project "$1" && [ "$(exercise_outcome "$1")" != reached ]; then
    fail 2 "ours is shown when yours has reached its goals (./rmsnorm exercise $1)"
  fi
  exercise_begin "$1"
  local colour=never
  if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then colour=always; fi
  if diff -u "--color=$colour" --label "exercises/$1.cu" --label "$(whose "$1")" \
    "$copies/$1.cu" <(exercise_solved "$1"); then
    note "exercises/$1.cu is $(whose "$1")"
  fi
}

exercise_hint() { # SLUG
  exercise_begin "$1"
  local page="$here/lessons/$1/README.md" hints shown
  hints=$(grep -c '<summary>Hint [0-9]</summary>' "$page")
  shown=$(($(exercise_state "$1" 1 0) + 1))
  shown=$((shown > hints ? hints : shown))
  awk -v shown="$shown" -v hints="$hints" '
    /<summary>Hint [0-9]<\/summary>/ {
      inside = ++number <= shown
      any = 0
      if (inside) printf "Hint %d of %d\n\n", number, hints
      next
    }
    /<\/details>/ { inside = 0 }
    inside && (length($0) || any) { any = 1; print }' "$page"
  exercise_remember "$1" "$shown" "$(exercise_state "$1" 2 '')" "$(exercise_state "$1" 3 '')"
  if [ "$shown" -lt "$hints" ]; then return; fi
  if is_project "$1"; then
    note "that was the last one"
  else
    note "that was the last one (./rmsnorm exercise $(exercise_name "$1") --solution)"
  fi
}

exercise_reset() { # SLUG
  local copy="$copies/$1.cu" number=1 is_touched=yes
  if [ ! -f "$copy" ]; then exercise_begin "$1" && return; fi
  if cmp -s "$copy" "$copies/$1.given"; then is_touched=no; fi
  make_given "$1" # it is not that of before, if the lesson has changed
  if cmp -s "$copy" "$copies/$1.given"; then
    note "exercises/$1.cu is as it was given"
  elif [ "$is_touched" = no ]; then
    rm "$copy"
    exercise_begin "$1"
  else
    while [ -e "$copies/$1.old-$number" ]; do number=$((number + 1)); done
    mv "$copy" "$copies/$1.old-$number"
    exercise_begin "$1"
    note "the old copy is exercises/$1.old-$number"
  fi
  rm -f "$copies/$1.state"
}

exercise_watch() { # SLUG
  if [ "$device" = cuda ]; then fail 2 "--watch checks on the CPU device only"; fi
  exercise_begin "$1"
  device=cpu
  configure
  unlock_build
  trap 'echo; exit 0' INT
  local copy="$copies/$1.cu" seen='' now
  while true; do
    now=$(cksum 2>/dev/null <"$copy") || now=$seen # an editor may be about to replace it
    if [ "$now" != "$seen" ]; then
      seen=$now
      echo
      note "$(date +%T) checking exercises/$1.cu (Ctrl-C ends this)"
      exercise_check_copy "$1" || true
    fi
    sleep 0.3
  done
}

# Verifies and times the copy on the GPU, and the lesson's kernel beside it, if there is one.
exercise_time() { # SLUG
  device=cuda
  preset=
  configure
  local regime targets=("my_$1")
  if ! is_project "$1"; then targets+=("$1"); fi
  exercise_build "$1" "${targets[@]}" || fail 2 "exercises/$1.cu does not compile with nvcc"
  take_program "$here/build/$preset/lessons/my_$1"
  "$own/my_$1" --time || return
  if is_project "$1"; then return; fi
  regime=$(field regime "$here/lessons/$1/rms_norm.cu")
  "$here/build/$preset/lessons/$1" --regime "$regime"
}
