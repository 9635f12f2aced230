# One file an operation: NAME.hpp has the struct that kernels take, and its Description. From each, CMake
# makes the file in which the operation is compiled. Where the struct is a template, an operation is each
# instance that NAME.hpp gives a name:
#
#   using NAME_OF_INSTANCE = TheStruct<...>;
file(GLOB headers CONFIGURE_DEPENDS operations/*.hpp)
foreach(header IN LISTS headers)
  cmake_path(GET header STEM NAME)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  file(STRINGS "${header}" description REGEX "^struct Description<" LIMIT_COUNT 1)
  string(REGEX REPLACE "^[^<]*<([A-Za-z0-9]+).*" "\\1" struct "${description}")
  if(NOT struct)
    message(FATAL_ERROR "${header} has no line that begins with: struct Description<")
  endif()
  file(STRINGS "${header}" instances REGEX "^using [A-Za-z0-9]+ =( ${struct}<|$)")
  list(TRANSFORM instances REPLACE "^using ([A-Za-z0-9]+) .*" "\\1")
  list(FILTER instances INCLUDE REGEX "^[A-Za-z0-9]+$")
  if(NOT instances)
    set(instances ${struct})
  endif()
  set(OPERATIONS "")
  foreach(instance IN LISTS instances)
    string(APPEND OPERATIONS
      "template <>\nconst Operation& operation_of<${instance}>() {\n"
      "  return make_operation<${instance}>();\n}\n\n")
  endforeach()
  configure_file(verify/operation.cu.in "operations/${NAME}.cu" @ONLY)
  add_kernels(rmsnorm_harness "${CMAKE_CURRENT_BINARY_DIR}/operations/${NAME}.cu")
endforeach()
