# Which GPUs to compile for: the reader's choice, else the installed GPUs, else Hopper. To be included
# before the CUDA language is enabled.
#
# CMAKE_CUDA_ARCHITECTURES=native is never used: it fails on a machine without a GPU.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
  set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}")
endif()
# No PTX for GPUs before Hopper: a Hopper would run it, with launches that overlap and without the
# instruction that waits.
set(before_hopper "^([5-8][0-9])$")
if(DEFINED CMAKE_CUDA_ARCHITECTURES)
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "${before_hopper}" "\\1-real")
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "(^|;)[5-8][0-9]-virtual")
    message(FATAL_ERROR "Name a GPU before Hopper without -virtual: a Hopper must not run its PTX")
  endif()
  return()
endif()

execute_process(
  COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  OUTPUT_VARIABLE capabilities
  ERROR_QUIET
  RESULT_VARIABLE failed)
string(REGEX MATCHALL "[0-9]+\\.[0-9]+" architectures "${capabilities}")
string(REPLACE "." "" architectures "${architectures}")
list(REMOVE_DUPLICATES architectures)

# A GPU may be too old or too new for this toolkit.
execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
foreach(architecture IN LISTS architectures)
  if(NOT known MATCHES "compute_${architecture}\n")
    message(STATUS "This CUDA Toolkit cannot compile for the GPU's architecture ${architecture}")
    set(architectures "")
  endif()
endforeach()

if(failed OR NOT architectures)
  # Hopper's machine code, and its PTX for what came later. More than that would cost every build.
  set(architectures 90-real 90-virtual)
  message(STATUS
    "No GPU to compile for: the kernels are for compute capability 9.0 and newer; for others, "
    "configure with -DCMAKE_CUDA_ARCHITECTURES=75 (7.5), 80 (8.0), ...")
endif()
list(TRANSFORM architectures REPLACE "${before_hopper}" "\\1-real")
set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "CUDA architectures to compile for")
