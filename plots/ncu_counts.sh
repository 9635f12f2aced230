#!/usr/bin/env bash
# Lets NVIDIA's profiler count what each implementation does, and prints a CSV.
# usage: plots/ncu_counts.sh PROGRAM COLUMN=METRIC... -- OPTIONS...
#   PROGRAM   all_lessons
#   METRIC    one of ncu's, or METRIC:OPCODE, this opcode's share of a metric that ncu has by opcode
#   OPTIONS   of one run of PROGRAM, in one word: "--regime decode". All that it runs has to launch
#             as many kernels.
set -euo pipefail

fail() {
  echo "ncu_counts: $1" >&2
  exit 2
}

program=$1
shift
columns=()
wanted=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  columns+=("${1%%=*}")
  wanted+=("${1#*=}")
  shift
done
if [ $# -lt 2 ]; then fail "there is nothing to run: -- OPTIONS... is missing"; fi
shift

command -v ncu >/dev/null || fail "ncu was not found: it comes with the CUDA Toolkit (Nsight Compute)"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | sed -n 1p) ||
  fail "nvidia-smi does not name the GPU"
# "built from VERSION with CUDA VERSION"
read -r _ _ version _ _ cuda < <("$program" --version) || fail "'$program' does not say its version"

metrics=$(printf '%s\n' "${wanted[@]%%:*}" | awk '!seen[$0]++' | paste -s -d ,)
page=()
# What a metric is for each opcode stands on the page "raw" only: "120 (BAR: 20; LDS: 100)".
case "${wanted[*]}" in *:*) page=(--page raw --print-metric-instances details) ;; esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

(
  IFS=,
  echo "operation,implementation,regime,dtype,rows,hidden,${columns[*]},device,cuda,version,date"
)
for options in "$@"; do
  read -r -a words <<<"$options"
  # The launches of each implementation that passes, in the order in which the program reports them.
  # Each is verified over several launches: the first is counted.
  ncu --csv --log-file "$folder/ncu" --print-units base --clock-control none "${page[@]}" \
    --kernel-name regex:rms_norm --metrics "$metrics" \
    "$program" "${words[@]}" --verify-only --csv "$folder/results" \
    >"$folder/messages" 2>&1 || {
    cat "$folder/messages" "$folder/ncu" >&2
    fail "ncu failed"
  }
  # Lessons that run on the CPU launch nothing.
  awk -F , -v OFS=, '
    NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i }
    $at["verdict"] == "pass" && $at["device"] != "cpu" { print $1, $2, $3, $4, $5, $6 }' \
    "$folder/results" >"$folder/launches"
  if [ ! -s "$folder/launches" ]; then fail "nothing passed with $options"; fi

  # Every field of ncu's CSV is quoted, and some have commas in them. Wanted: launch, metric, value.
  # A line is one value of one launch, or, on the page "raw", all values of one, below their units.
  { grep '^"' "$folder/ncu" || true; } | sed 's/","/\t/g; s/^"//; s/"$//' |
    awk -F '\t' -v OFS='\t' '
      NR == 1 { for (i = 1; i <= NF; ++i) { at[$i] = i; name[i] = $i }; next }
      { gsub(",", "") }
      "Metric Name" in at { print $at["ID"], $at["Metric Name"], $at["Metric Value"]; next }
      $at["ID"] != "" { for (i = 1; i <= NF; ++i) print $at["ID"], name[i], $i }' >"$folder/counts"

  awk -F '\t' -v wanted="${wanted[*]}" -v tail="$device,$cuda,$version,$(date -u +%F)" '
    # The number in "N" or, of an opcode, in "SUM (OPCODE: N; OPCODE: N)"; "" where there is none.
    function number_in(text, opcode) {
      if (opcode != "") {
        if (text !~ /\([A-Z][A-Z0-9_.]*: [0-9]/) return ""
        if (!match(text, "[( ]" opcode ": [0-9]+")) return 0  # never executed
        text = substr(text, RSTART, RLENGTH)
        sub(/.*: /, "", text)
      }
      sub(/ .*/, "", text)
      return text ~ /^[0-9][0-9.]*$/ ? text : ""
    }
    FNR == NR { launch[launches++] = $0; next }
    !($1 in number) { number[$1] = seen++ }
    { value[number[$1], $2] = $3 }
    END {
      if (seen == 0 || seen % launches != 0) {
        print "ncu_counts: " seen + 0 " launches of " launches " results" > "/dev/stderr"
        exit 2
      }
      n = split(wanted, want, " ")
      for (i = 0; i < launches; ++i) {
        line = launch[i]
        for (k = 1; k <= n; ++k) {
          split(want[k], part, ":")
          number_k = number_in(value[i * seen / launches, part[1]], part[2])
          if (number_k == "")
            print "ncu_counts: ncu has no " want[k] " for " launch[i] > "/dev/stderr"
          line = line "," number_k
        }
        print line "," tail
      }
    }' "$folder/launches" "$folder/counts"
done
