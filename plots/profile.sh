#!/usr/bin/env bash
# Lets NVIDIA's profiler count what each kernel of RMSNorm does in four regimes, and those of lessons 13
# and 16 in two, and writes a CSV.
# usage: plots/profile.sh PROGRAM OUTPUT.csv    PROGRAM is all_lessons, OUTPUT is replaced
set -euo pipefail

program=$1
output=$2
columns=(
  sectors_read=l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
  sectors_written=l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
  dram_bytes_read=dram__bytes_read.sum
  dram_bytes_written=dram__bytes_write.sum
  instructions=smsp__inst_executed.sum
  registers=launch__registers_per_thread
  active_warps_pct=sm__warps_active.avg.pct_of_peak_sustained_active
)
runs=()
for regime in prefill decode heads wide; do runs+=("--operation rms_norm --regime $regime"); done
# In bf16, lessons 13 and 16 and those of their variants that support it have one kernel each.
for regime in prefill decode; do
  for lesson in 13 16; do runs+=("--lesson $lesson --dtype bf16 --regime $regime"); done
done

trap 'rm -f "$output.partial"' EXIT
"$(dirname "$0")/ncu_counts.sh" "$program" "${columns[@]}" -- "${runs[@]}" >"$output.partial"
mv "$output.partial" "$output"
