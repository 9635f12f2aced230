#!/usr/bin/env bash
# Follows the README on a machine that has nothing but its distribution: debootstrap makes one, a
# clone of this checkout's HEAD is put in it, and the README's lines are run there, as root. The
# packages that they need are installed by ./rmsnorm or the Containerfile, never by this script.
# usage: fresh_machine.sh bookworm|trixie|noble [quick|all|aarch64]
#   quick  set up by the Containerfile's own steps; lesson 1, an exercise, a check
#   all    each line of the README that needs neither CUDA nor a container engine
#   aarch64  the CPU device for another processor: built by a cross compiler, run by an emulator
# Nothing stays mounted, and the machine is removed. What is kept: each step's output, in
# build/fresh, and the bare system, there or in RMSNORM_FRESH_CACHE: it is made only once.
# Exit code: 0 all ok, 1 a step failed, 2 bad usage, 4 skipped (CTest's word for "cannot run here").
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
suite=${1:-}
part=${2:-all}
if [ $# -gt 2 ] || [[ ! "$suite $part" =~ ^(bookworm|trixie|noble)\ (quick|all|aarch64)$ ]]; then
  echo "usage: $0 bookworm|trixie|noble [quick|all|aarch64]" >&2
  exit 2
fi
work="$here/build/fresh/$suite"
system="$work/system"
cache=${RMSNORM_FRESH_CACHE:-$here/build/fresh}
bare="$cache/$suite.tar"

skip() { # REASON
  echo "skipped: $1"
  exit 4
}

# ---- Outside: makes a namespace, so that mounts and processes end with it, however it ends. ----

if [ -z "${RMSNORM_FRESH_INSIDE:-}" ]; then
  if [ "$(id -u)" -ne 0 ]; then skip "only root can make a system of its own"; fi
  for tool in debootstrap git unshare setpriv; do
    command -v "$tool" >/dev/null || skip "there is no $tool here"
  done
  isolated=(setpriv --pdeathsig KILL
    unshare --mount --pid --fork --kill-child --mount-proc)
  "${isolated[@]}" true 2>/dev/null || skip "no namespace for mounts may be made here"
  git -c safe.directory='*' -C "$here" rev-parse -q --verify HEAD >/dev/null 2>&1 ||
    skip "$here is no clone"

  mkdir -p "$work" "$cache"
  exec 9>"$work/lock"
  flock -n 9 || { echo "waiting for another run in $work" && flock 9; }
  child=
  clean_up() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
      kill -KILL "$child" 2>/dev/null || true
      wait "$child" 2>/dev/null || true
    fi
    # What has just been killed may still write.
    rm -rf "$system" 2>/dev/null || { sleep 2 && rm -rf "$system"; }
    rm -f "$bare.new.$$"
  }
  clean_up # after a run that could not
  find "$cache" -maxdepth 1 -name "$suite.tar.new.*" -mmin +60 -delete
  trap clean_up EXIT
  trap 'exit 1' INT TERM HUP
  RMSNORM_FRESH_INSIDE=$$ "${isolated[@]}" "$0" "$suite" "$part" &
  child=$!
  status=0
  wait "$child" || status=$?
  exit "$status"
fi

# ---- Inside ----

# The proxies of whoever calls, which the clean environment would lose, and apt's.
for name in http_proxy https_proxy; do
  if [ -z "${!name:-}" ] && command -v apt-config >/dev/null; then
    eval "$(apt-config shell "$name" "Acquire::${name%_proxy}::Proxy")"
  fi
  if [ -n "${!name:-}" ]; then export "${name?}"; fi
done
proxies=()
for name in http_proxy https_proxy no_proxy; do
  if [ -n "${!name:-}" ]; then proxies+=("$name=${!name}"); fi
done

# A command's line in the fresh system, with nothing of this environment but the proxies.
in_system() { # LINE
  chroot "$system" /usr/bin/env -i HOME=/root LANG=C.UTF-8 "${proxies[@]}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "cd && $1"
}

names=()
results=()
print_table() {
  local i
  printf '\n%-78s %6s\n' "step, on $suite" seconds
  for i in "${!names[@]}"; do printf '%-78s %s\n' "${names[i]}" "${results[i]}"; done
}

ended() { # NAME BEGIN VERDICT
  names+=("$1")
  results+=("$(printf '%7d  %s' $((SECONDS - $2)) "$3")")
  echo "${results[-1]}"
}

# Its output goes to a file. The first step that fails is the last one.
step() { # NAME EXIT_CODE COMMAND...
  local name=$1 wanted=$2 log status=0 begin=$SECONDS verdict=ok
  shift 2
  log=$(printf '%s/%02d.log' "$work" $((${#names[@]} + 1)))
  printf '%-78s ' "$name"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne "$wanted" ]; then verdict=failed; fi
  ended "$name" "$begin" "$verdict"
  if [ "$verdict" = ok ]; then return; fi
  print_table
  printf '\nexit code %d, not %d; the last lines of %s:\n' "$status" "$wanted" "$log"
  tail -n 30 "$log" | sed 's/^/  /'
  exit 1
}

# The bare system, as a file: whole or not there at all. The archive is the one debootstrap knows.
make_bare() {
  local options=(--variant=minbase "--include=ca-certificates,git") script=sid keyring=debian
  if [ "$suite" = noble ]; then
    options+=("--components=main,universe")
    script=gutsy # what debootstrap has for every Ubuntu since; it may not know this one's name
    keyring=ubuntu
  fi
  if [ ! -e "/usr/share/keyrings/$keyring-archive-keyring.gpg" ]; then
    # To verify them would take a key from the same unverified place. The system is thrown away.
    echo "this machine lacks the keys of ${keyring^}'s archive: its packages are not verified"
    options+=(--no-check-gpg)
  fi
  local log="$work/debootstrap.log" begin=$SECONDS new="$bare.new.$RMSNORM_FRESH_INSIDE"
  rm -rf "$system"
  printf '%-78s ' "debootstrap $suite"
  if ! debootstrap "${options[@]}" "$suite" "$system" "" "/usr/share/debootstrap/scripts/$script" \
    >"$log" 2>&1 </dev/null; then
    echo failed
    tail -n 30 "$log" | sed 's/^/  /'
    if grep -qE "^E: (Failed getting release|Couldn't download)" "$log"; then
      skip "the archive of $suite cannot be reached"
    fi
    exit 1
  fi
  rm -f "$system"/var/cache/apt/archives/*.deb
  tar -C "$system" --one-file-system -cf "$new" .
  mv "$new" "$bare"
  ended "debootstrap $suite" "$begin" ok
}

unpack() {
  rm -rf "$system"
  mkdir "$system"
  tar -C "$system" -xpf "$bare"
  cp -L /etc/resolv.conf "$system/etc/resolv.conf"
  mount -t proc proc "$system/proc"
  mount --rbind /dev "$system/dev"
}

# Without the archive, nothing below could be right or wrong.
reach_archive() {
  local mirror
  read -r _ mirror _ <"$system/etc/apt/sources.list"
  wget -q --spider --timeout=20 --tries=2 "$mirror/dists/$suite/InRelease" ||
    skip "the archive of $suite cannot be reached"
}

# The steps of the Containerfile, which has each in one line.
follow_containerfile() {
  local instruction arguments
  while read -r instruction arguments <&8; do
    case "$instruction" in
      FROM | WORKDIR | CMD | '#' | '') ;; # this system, and where its shell would begin
      RUN) step "RUN $arguments" 0 in_system "$arguments" ;;
      COPY)
        step "COPY $arguments" 0 in_system \
          "cd rmsnorm && mkdir -p '${arguments##* }' && cp ${arguments% *} '${arguments##* }'"
        ;;
      *) step "$instruction $arguments: what is that?" 0 false ;;
    esac
  done 8<"$system/root/rmsnorm/Containerfile"
}

# The lines of the README's shell blocks, and one that stands in its text, without their comments.
lines_of_readme() {
  awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on && NF' "$system/root/rmsnorm/README.md" |
    sed 's/ *#.*//'
  # shellcheck disable=SC2016
  grep -o '^`\./rmsnorm docs`' "$system/root/rmsnorm/README.md" | tr -d '`'
}

follow() { # LINE
  local wanted=0 copy=exercises/04_warp_reduce.cu
  case "$1" in
    'cd rmsnorm') return ;; # before each line
    'docker '* | 'pip '* | library/*) return ;; # needs an engine, or CUDA
    './rmsnorm exercise 4') wanted=4 ;; # right, and its goal is not reached
    'git diff --no-index '*) wanted=1 ;; # they differ
  esac
  step "$1" "$wanted" in_system "cd rmsnorm && $1"
  if [ "$1" != './rmsnorm exercise 4' ]; then return; fi
  step "$1, with a mistake" 1 in_system "cd rmsnorm &&
    sed -i 's/+= partial\[threadIdx.x + half\]/+= partial[threadIdx.x]/' $copy && $1"
  step "$1, with a call that g++ does not mind" 0 in_system "cd rmsnorm &&
    sed -i 's/rsqrtf(total /rsqrtf(std::max(total, 0.0f) /' $copy &&
    { $1 2>&1 || true; } | grep 'a kernel cannot call std::max: it has no __device__'"
  step "$1, solved" 0 in_system "cd rmsnorm && cp lessons/04_warp_reduce/rms_norm.cu $copy && $1"
}

# The CPU device's own test project, which knows nothing of this processor.
follow_aarch64() {
  step "packages for aarch64" 0 in_system "dpkg --add-architecture arm64 && apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      cmake ninja-build g++-aarch64-linux-gnu qemu-user \
      libboost-context-dev:arm64 libdw-dev:arm64 libfmt-dev:arm64"
  step "configure for aarch64" 0 in_system "cd rmsnorm &&
    cmake -S common/cpu_device/tests/alone -B build -G Ninja -D CMAKE_BUILD_TYPE=Release \
      -D CMAKE_SYSTEM_NAME=Linux -D CMAKE_SYSTEM_PROCESSOR=aarch64 \
      -D CMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
      -D CMAKE_CROSSCOMPILING_EMULATOR=/usr/bin/qemu-aarch64"
  step "build for aarch64" 0 in_system "cmake --build rmsnorm/build"
  step "a race is found on aarch64" 0 in_system "cd rmsnorm && qemu-aarch64 build/reverse |
    grep 'reverse.cu:11: a race: thread 32 writes row.32. here, thread 31 reads it at reverse.cu:12'"
  step "and a line that never runs" 0 in_system "cd rmsnorm && qemu-aarch64 build/reverse |
    grep 'reverse.cu:14: never run'"
}

cd "$here"
rm -f "$work"/*.log
if [ ! -f "$bare" ]; then make_bare; fi
unpack
reach_archive
git -c safe.directory='*' bundle create -q "$system/root/rmsnorm.bundle" HEAD
step "git clone" 0 in_system \
  "git -c advice.detachedHead=false clone -q rmsnorm.bundle rmsnorm"

mapfile -t lines < <(lines_of_readme)
if [ "$part" = quick ]; then
  follow_containerfile
  for line in 'cd rmsnorm' './rmsnorm lesson 1' './rmsnorm exercise 4' 'mkdir -p build && cp .*' \
    './rmsnorm check build/my.cu'; do
    line=$(printf '%s\n' "${lines[@]}" | grep -m 1 -x "$line") ||
      { echo "the README has no line '$line'"; exit 1; }
    follow "$line"
  done
elif [ "$part" = aarch64 ]; then
  follow_aarch64
else
  for line in "${lines[@]}"; do follow "$line"; done
fi
print_table
