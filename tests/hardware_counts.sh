#!/usr/bin/env bash
# Lets NVIDIA's profiler count, for each kernel of RMSNorm, what the CPU device counts, too: on two
# small shapes, and lesson 15's kernels on a third. Writes a CSV.
# usage: tests/hardware_counts.sh PROGRAM OUTPUT.csv    PROGRAM is all_lessons, OUTPUT is replaced
set -euo pipefail

program=$1
output=$2
# A request is an instruction with a lane that is switched on. The others are among the instructions,
# shuffles and barriers, which are those of all warps.
# The counters of shared wavefronts and conflicts may also see waits for other accesses, differently
# in each run; their difference and the wavefronts that the addresses imply (_sass) do not.
columns=(
  global_load_requests=l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
  global_load_sectors=l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
  global_store_requests=l1tex__t_requests_pipe_lsu_mem_global_op_st.sum
  global_store_sectors=l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
  shared_load_requests=smsp__inst_executed_op_shared_ld_pred_on_any.sum
  shared_load_wavefronts=l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
  shared_load_conflicts=l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
  shared_store_requests=smsp__inst_executed_op_shared_st_pred_on_any.sum
  shared_store_wavefronts=l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
  shared_store_conflicts=l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
  shuffles=sass__inst_executed_per_opcode:SHFL
  barriers=sass__inst_executed_per_opcode:BAR
  shared_load_wavefronts_sass=smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
  shared_store_wavefronts_sass=smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum
  shared_load_instructions=smsp__inst_executed_op_shared_ld.sum
  shared_store_instructions=smsp__inst_executed_op_shared_st.sum
  remote_stores=smsp__sass_inst_executed_op_dshared_st.sum
  remote_async_stores=smsp__sass_inst_executed_op_dshared_stas.sum
  cluster_barriers=sass__inst_executed_per_opcode:UCGABAR_WAIT
)
runs=(
  "--lesson 15 --rows 8 --hidden 32768"
  "--operation rms_norm --rows 256 --hidden 4096"
  "--operation rms_norm --rows 1024 --hidden 128"
)

trap 'rm -f "$output.partial"' EXIT
"$(dirname "$0")/../plots/ncu_counts.sh" "$program" "${columns[@]}" -- "${runs[@]}" \
  >"$output.partial"
mv "$output.partial" "$output"
