# One file an operation: NAME.hpp has the struct that kernels take, and its Description. From each, CMake
# makes the file in which the operation is compiled.
file(GLOB headers CONFIGURE_DEPENDS operations/*.hpp)
foreach(header IN LISTS headers)
  cmake_path(GET header STEM NAME)
  file(STRINGS "${header}" description REGEX "^struct Description<" LIMIT_COUNT 1)
  string(REGEX REPLACE ".*<(.+)>.*" "\\1" STRUCT "${description}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  if(NOT STRUCT)
    message(FATAL_ERROR "${header} has no line that begins with: struct Description<")
  endif()
  configure_file(verify/operation.cu.in "operations/${NAME}.cu" @ONLY)
  add_kernels(rmsnorm_harness "${CMAKE_CURRENT_BINARY_DIR}/operations/${NAME}.cu")
endforeach()
