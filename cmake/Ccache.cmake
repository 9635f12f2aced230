# What has been compiled before is taken from ccache's store, where ccache is installed and works: in a
# second checkout, after a branch was changed, in a test. (-DCMAKE_CXX_COMPILER_LAUNCHER= does without.)
find_program(CCACHE ccache)
if(NOT CCACHE OR DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
set(source "${PROJECT_BINARY_DIR}/CMakeFiles/ccache_works.cpp")
file(WRITE "${source}" "int main() {}\n")
execute_process(
  COMMAND "${CCACHE}" "${CMAKE_CXX_COMPILER}" -c "${source}" -o "${source}.o"
  OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  message(STATUS "ccache does not work here, so it is not used: ${CCACHE}")
  return()
endif()
# A header that the tests precompile is part of what is compiled (-fpch-preprocess), though not by its date.
set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE}")
set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
