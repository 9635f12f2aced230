# The oldest compilers that the project is built with, on any device.
set(compiler "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(compiler "g++")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  set(compiler "clang")
endif()
if(compiler)
  # Else CMake would neither look at CXX again, nor at a compiler that has been replaced.
  file(REMOVE "${CMAKE_PLATFORM_INFO_DIR}/CMakeCXXCompiler.cmake")
  unset(CMAKE_CXX_COMPILER CACHE)
  # In one line of CMake's, which ./rmsnorm shows.
  message(FATAL_ERROR
    "${compiler} ${CMAKE_CXX_COMPILER_VERSION} is too old: g++ 12 or clang 16 is needed (CXX names it)")
endif()
