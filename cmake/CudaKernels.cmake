# How .cu files are built for a GPU: by nvcc, as they are.
add_library(cuda_runtime INTERFACE)
target_link_libraries(cuda_runtime INTERFACE CUDA::cudart_static)

function(add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WATCHED" "" "")
  target_sources(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  set_source_files_properties(${arg_UNPARSED_ARGUMENTS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
