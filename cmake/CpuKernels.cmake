# How .cu files are built for the CPU device. The CUDA runtime is the CPU device's.
set(CPU_DEVICE_OWN "common/")
set(CPU_DEVICE_WATCHES ON)
if(RMSNORM_SANITIZE)  # AddressSanitizer cannot share a file with ThreadSanitizer's calls
  set(CPU_DEVICE_WATCHES OFF)
endif()
add_library(cuda_runtime INTERFACE)
target_link_libraries(cuda_runtime INTERFACE cpu_device)

# add_kernels(TARGET [WATCHED] FILE.cu...): WATCHED for lessons, which a learner wants to look
# into. A lesson that needs what only a GPU has becomes one that supports no problem and says so.
function(add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WATCHED" "" "")
  set(options "")
  if(arg_WATCHED)
    set(options WATCHED OTHERWISE stand_in)
  endif()
  cpu_device_add_kernels(${target} ${options} ${arg_UNPARSED_ARGUMENTS})
endfunction()
