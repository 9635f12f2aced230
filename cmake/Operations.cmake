# One file an operation: NAME.hpp has the struct that kernels take, called like the file (layer_norm:
# LayerNorm), and its Description. From each, CMake makes the file in which it is compiled.
file(GLOB headers CONFIGURE_DEPENDS operations/*.hpp)
set(operations "")
foreach(header IN LISTS headers)
  cmake_path(GET header STEM NAME)
  set(STRUCT "")
  string(REPLACE "_" ";" words "${NAME}")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND STRUCT "${first}${rest}")
  endforeach()
  configure_file(verify/operation.cu.in "operations/${NAME}.cu" @ONLY)
  list(APPEND operations "${CMAKE_CURRENT_BINARY_DIR}/operations/${NAME}.cu")
endforeach()

add_kernels(rmsnorm_harness ${operations})
