# How .cu files are built for the CPU device: rewritten into C++ (compiler/rewrite.hpp), then compiled
# like any other file.

# How a rewritten file is compiled.
set(options -g1)  # the names of source lines, without those of variables
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(options -g -gdwarf-aranges)  # with less, libdw does not find every line
endif()
# By the frame pointers the device finds which calls a barrier is in (scheduler/arrival.hpp). Kernels look
# at floats as float4, and compare threadIdx with signed numbers, as CUDA files do. Assertions are for a
# device that checks, in every build.
list(APPEND options -UNDEBUG -fno-omit-frame-pointer -fno-strict-aliasing -Wno-sign-compare -Wno-unknown-pragmas)
set(CPU_DEVICE_KERNEL_OPTIONS ${options} CACHE INTERNAL "")

# The compiler calls the device at each load and store (language/hooks.cpp). These calls
# are ThreadSanitizer's, which AddressSanitizer cannot share a file with.
#
# Counts are those of the source: each thread keeps its own loads, one for each in the source. So
# neither compiler may merge them into vectors, leave one unreported because a store follows, take a
# struct apart that is loaded as a whole, or make two loads of one, for lanes that differ in a
# condition (g++ 13 does). Nor may they make one of two calls that end two branches: a barrier has to
# tell them apart.
# g++ -O1 compiles in half of the time of -O3. With these four passes of -O3, the counts are the same.
add_library(cpu_device_watched INTERFACE)
if(CPU_DEVICE_WATCHES)
  # A call at a kernel's end has to come back there: the address that it returns to is its line.
  target_compile_options(cpu_device_watched INTERFACE
    -fsanitize=thread -fsanitize-coverage=trace-pc,trace-cmp -fno-unroll-loops -fno-optimize-sibling-calls)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(cpu_device_watched INTERFACE
      $<$<CONFIG:Release>:-O1> -fpeel-loops -finline-small-functions -ftree-pre -fcode-hoisting
      -Wno-attributes -Wno-tsan --param=tsan-instrument-func-entry-exit=0 --param=tsan-distinguish-volatile=1
      -fno-tree-vectorize -fno-tree-sra -fno-thread-jumps -fno-crossjumping -fno-tree-tail-merge)
  else()
    target_compile_options(cpu_device_watched INTERFACE
      -fno-vectorize -fno-slp-vectorize -Wno-pass-failed
      "-fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/compiler/clang_ignores.txt"
      "SHELL:-mllvm -tsan-instrument-func-entry-exit=0"
      "SHELL:-mllvm -tsan-distinguish-volatile=1"
      "SHELL:-mllvm -tsan-instrument-read-before-write=1")
  endif()
endif()

# cpu_device_add_kernels(TARGET [WATCHED] [OTHERWISE PROGRAM] FILE.cu...)
# cpu_device_add_kernels(TARGET [WATCHED] HEADERS FILE.cu... [INCLUDE FOLDER...])
#   WATCHED    loads and stores are watched, too
#   OTHERWISE  what a file becomes that needs what only a GPU has: this program is called with the
#              file, the C++ file to write and the reason
#   HEADERS    what a file includes from its own folder or from these may have kernels as well
function(cpu_device_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WATCHED;HEADERS" "OTHERWISE" "INCLUDE")
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    cmake_path(GET file STEM name)
    set(rewritten "${CMAKE_CURRENT_BINARY_DIR}/rewritten/${target}/${name}")
    set(options "")
    set(depfile "")
    if(arg_OTHERWISE)
      set(options --otherwise $<TARGET_FILE:${arg_OTHERWISE}>)
    elseif(arg_HEADERS)
      set(options --headers "${rewritten}")
      set(depfile DEPFILE "${rewritten}.cpp.d")
    endif()
    add_custom_command(
      OUTPUT "${rewritten}.cpp"
      COMMAND cpu_device_rewrite ${options} "${file}" "${rewritten}.cpp" ${arg_INCLUDE}
      DEPENDS "${file}" cpu_device_rewrite ${arg_OTHERWISE}
      ${depfile}
      WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
      COMMENT "Rewriting ${name}.cu as C++"
      VERBATIM)
    set_source_files_properties(
      "${rewritten}.cpp" PROPERTIES COMPILE_OPTIONS "${CPU_DEVICE_KERNEL_OPTIONS}")
    target_sources(${target} PRIVATE "${rewritten}.cpp")
    cmake_path(GET file PARENT_PATH folder)
    target_compile_options(${target} PRIVATE "SHELL:-iquote \"${folder}\"")  # its own headers
  endforeach()
  if(arg_WATCHED)
    target_link_libraries(${target} PRIVATE cpu_device_watched)
  endif()
  target_link_libraries(${target} PRIVATE cpu_device)
endfunction()

# cpu_device_add_program(TARGET FILE.cu... [INCLUDE FOLDER...]): a program with a main() of its own, watched
# from its first line to its last (interface/watched_program.cpp). It includes headers from these folders.
set(CPU_DEVICE_WATCHED_PROGRAM "${CMAKE_CURRENT_LIST_DIR}/interface/watched_program.cpp" CACHE INTERNAL "")
function(cpu_device_add_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "INCLUDE")
  add_executable(${target} EXCLUDE_FROM_ALL "${CPU_DEVICE_WATCHED_PROGRAM}")
  target_link_options(${target} PRIVATE LINKER:--wrap=main,--wrap=exit,--wrap=quick_exit)
  cpu_device_add_kernels(${target} WATCHED HEADERS ${arg_UNPARSED_ARGUMENTS} INCLUDE ${arg_INCLUDE})
  target_compile_options(${target} PRIVATE "SHELL:-include cuda_runtime.h")  # as nvcc does
  target_include_directories(${target} PRIVATE ${arg_INCLUDE})
endfunction()

# cpu_device_rewrite_header(FOLDER HEADER): a header with launches, __shared__ variables or inline PTX,
# which files include as HEADER, is rewritten like a .cu file, and found before the original. (The
# compiler looks into its folder first.)
function(cpu_device_rewrite_header folder header)
  set(rewritten "${CMAKE_BINARY_DIR}/rewritten/${header}")
  cmake_path(GET header FILENAME name)
  add_custom_command(
    OUTPUT "${rewritten}"
    COMMAND cpu_device_rewrite "${folder}/${header}" "${rewritten}"
    DEPENDS "${folder}/${header}" cpu_device_rewrite
    COMMENT "Rewriting ${name} as C++"
    VERBATIM)
  string(MAKE_C_IDENTIFIER "rewritten_${header}" target)
  add_custom_target(${target} DEPENDS "${rewritten}")
  add_dependencies(cpu_device ${target})
  target_compile_options(cpu_device INTERFACE "SHELL:-iquote \"${CMAKE_BINARY_DIR}/rewritten\"")
endfunction()
