# find_package(rmsnorm CONFIG) gives the target rmsnorm::rmsnorm. rmsnorm.h includes dlpack/dlpack.h.
find_path(DLPACK_INCLUDE_DIR dlpack/dlpack.h)
if(NOT DLPACK_INCLUDE_DIR)
  set(rmsnorm_FOUND FALSE)
  set(rmsnorm_NOT_FOUND_MESSAGE
    "dlpack/dlpack.h was not found: install libdlpack-dev, or say where it is with -DDLPACK_INCLUDE_DIR=FOLDER.")
  return()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/rmsnorm-targets.cmake")
set_property(TARGET rmsnorm::rmsnorm APPEND PROPERTY
  INTERFACE_INCLUDE_DIRECTORIES "${DLPACK_INCLUDE_DIR}")
