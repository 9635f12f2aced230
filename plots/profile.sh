#!/usr/bin/env bash
# Lets NVIDIA's profiler count what each lesson does in three regimes, and writes a CSV.
# usage: plots/profile.sh PROGRAM OUTPUT.csv    PROGRAM is all_lessons, OUTPUT is replaced
set -euo pipefail

program=$1
output=$2
metrics=(
  l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
  l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
  dram__bytes_read.sum
  smsp__inst_executed.sum
  launch__registers_per_thread
  sm__warps_active.avg.pct_of_peak_sustained_active
)

fail() {
  echo "profile: $1" >&2
  exit 2
}

command -v ncu >/dev/null || fail "ncu was not found: it comes with the CUDA Toolkit (Nsight Compute)"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
# "built from COMMIT with CUDA VERSION"
read -r _ _ commit _ _ cuda < <("$program" --version)

folder=$(mktemp -d)
trap 'rm -rf "$folder" "$output.partial"' EXIT

{
  echo "lesson,regime,rows,hidden,sectors_read,sectors_written,dram_bytes_read,instructions,registers,active_warps_pct,device,cuda,commit,date"
  for regime in prefill decode heads wide; do
    # The launches of each lesson that does not refuse, in the order in which the program reports
    # them. Each is verified over several launches: the first is counted.
    ncu --csv --log-file "$folder/ncu" --print-units base --clock-control none \
      --kernel-name regex:rms_norm --metrics "$(IFS=,; echo "${metrics[*]}")" \
      "$program" --regime "$regime" --verify-only >"$folder/lines" 2>"$folder/messages" || {
      cat "$folder/messages" "$folder/ncu" >&2
      fail "ncu failed"
    }
    awk '/ PASS$/ { print $1, $2, $3, $5 }' "$folder/lines" >"$folder/launches"

    # Every field of ncu's CSV is quoted, and some have commas in them. Wanted: launch, metric, value.
    grep '^"' "$folder/ncu" | sed 's/","/\t/g; s/^"//; s/"$//' |
      awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
                   { gsub(",", "", $at["Metric Value"])
                     print $at["ID"], $at["Metric Name"], $at["Metric Value"] }' >"$folder/counts"

    awk -v names="${metrics[*]}" -v tail="$device,$cuda,$commit,$(date -u +%F)" '
      FNR == NR { launch[launches++] = $1 "," $2 "," $3 "," $4; next }
      { if (!($1 in number)) number[$1] = seen++; value[number[$1], $2] = $3 }
      END {
        if (launches == 0 || seen % launches != 0) {
          print "profile: " seen " launches of " launches " lessons" > "/dev/stderr"
          exit 2
        }
        n = split(names, name, " ")
        for (i = 0; i < launches; ++i) {
          line = launch[i]
          for (k = 1; k <= n; ++k) line = line "," value[i * seen / launches, name[k]]
          print line "," tail
        }
      }' "$folder/launches" "$folder/counts"
  done
} >"$output.partial"
mv "$output.partial" "$output"
