# How .cu files are built for the CPU device: rewritten into C++ (common/cpu_device/rewrite.hpp),
# then compiled like any other file. The CUDA runtime is the CPU device's.
add_library(cuda_runtime INTERFACE)
target_link_libraries(cuda_runtime INTERFACE cpu_device)

# A header with inline PTX is rewritten like a .cu file, and found before the original. The compiler
# looks into its folder first.
set(header library/kernels/cluster.cuh)
set(rewritten "${PROJECT_BINARY_DIR}/rewritten/${header}")
add_custom_command(
  OUTPUT "${rewritten}"
  COMMAND cpu_device_rewrite "${PROJECT_SOURCE_DIR}/${header}" "${rewritten}"
  DEPENDS "${PROJECT_SOURCE_DIR}/${header}" cpu_device_rewrite
  COMMENT "Rewriting ${header} as C++"
  VERBATIM)
add_custom_target(rewritten_headers DEPENDS "${rewritten}")
add_dependencies(cuda_runtime rewritten_headers)
target_compile_options(cuda_runtime INTERFACE "SHELL:-iquote \"${PROJECT_BINARY_DIR}/rewritten\"")

# The names of source lines, for g++ without those of variables.
set(line_names -g1)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(line_names -g -gdwarf-aranges)  # with less, libdw does not find every line
endif()

# The compiler calls the device at each load and store (common/cpu_device/hooks.cpp). These calls
# are ThreadSanitizer's, which AddressSanitizer cannot share a file with.
#
# Counts are those of the source: each thread keeps its own loads, one for each in the source. So
# neither compiler may merge them into vectors, leave one unreported because a store follows, take a
# struct apart that is loaded as a whole, or make two loads of one, for lanes that differ in a
# condition (g++ 13 does). Nor may they make one of two calls that end two branches: a barrier has to
# tell them apart.
# g++ -O1 compiles in half of the time of -O3. With these four passes of -O3, the counts are the same.
add_library(watched_code INTERFACE)
if(NOT RMSNORM_SANITIZE)
  # A call at a kernel's end has to come back there: the address that it returns to is its line.
  target_compile_options(watched_code INTERFACE
    -fsanitize=thread -fsanitize-coverage=trace-pc,trace-cmp -fno-unroll-loops -fno-optimize-sibling-calls)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(watched_code INTERFACE
      $<$<CONFIG:Release>:-O1> -fpeel-loops -finline-small-functions -ftree-pre -fcode-hoisting
      -Wno-attributes -Wno-tsan --param=tsan-instrument-func-entry-exit=0 --param=tsan-distinguish-volatile=1
      -fno-tree-vectorize -fno-tree-sra -fno-thread-jumps -fno-crossjumping -fno-tree-tail-merge)
  else()
    target_compile_options(watched_code INTERFACE
      -fno-vectorize -fno-slp-vectorize -Wno-pass-failed
      "-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/common/cpu_device/clang_ignores.txt"
      "SHELL:-mllvm -tsan-instrument-func-entry-exit=0"
      "SHELL:-mllvm -tsan-distinguish-volatile=1"
      "SHELL:-mllvm -tsan-instrument-read-before-write=1")
  endif()
endif()

# add_kernels(TARGET [WATCHED] FILE.cu...): WATCHED for lessons, which a learner wants to look
# into. A lesson that needs what only a GPU has becomes one that supports no problem and says so.
function(add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WATCHED" "" "")
  set(stand_in $<$<BOOL:${arg_WATCHED}>:--stand-in>)
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    cmake_path(GET file STEM name)
    set(rewritten "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}.cpp")
    add_custom_command(
      OUTPUT "${rewritten}"
      COMMAND cpu_device_rewrite ${stand_in} "${file}" "${rewritten}"
      DEPENDS "${file}" cpu_device_rewrite
      COMMENT "Rewriting ${name}.cu as C++"
      COMMAND_EXPAND_LISTS
      VERBATIM)
    # Lessons compare threadIdx with signed numbers, and look at
    # floats as float4, as CUDA files do. By the frame pointers the device
    # finds which calls a barrier is in (common/cpu_device/arrival.hpp).
    set_source_files_properties("${rewritten}" PROPERTIES
      COMPILE_OPTIONS "${line_names};-fno-omit-frame-pointer;-fno-strict-aliasing;-Wno-sign-compare;-Wno-unknown-pragmas")
    target_sources(${target} PRIVATE "${rewritten}")
    cmake_path(GET file PARENT_PATH folder)
    target_compile_options(${target} PRIVATE "SHELL:-iquote \"${folder}\"")  # its own headers
  endforeach()
  if(arg_WATCHED)
    target_link_libraries(${target} PRIVATE watched_code)
  endif()
  target_link_libraries(${target} PRIVATE cuda_runtime)
endfunction()
