# Which GPUs to compile for: the reader's choice, else the installed GPUs, else a list that covers
# all that the lessons run on. To be included before the CUDA language is enabled.
#
# CMAKE_CUDA_ARCHITECTURES=native is never used: it fails on a machine without a GPU.
if(DEFINED CMAKE_CUDA_ARCHITECTURES OR DEFINED ENV{CUDAARCHS})
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
  # Machine code for Turing, Ampere (Ada runs it too), Hopper; Hopper's PTX for what came later.
  set(architectures 75-real 80-real 90)
endif()
set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "CUDA architectures to compile for")
