# Switches the CUDA language on.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(instead "; or do without it (cmake --preset cpu)")
  if(RMSNORM_LIBRARY_ALONE)
    set(instead "")
  endif()
  message(FATAL_ERROR
    "nvcc was not found: install the CUDA Toolkit, 12 or 13, and put its bin folder into PATH${instead}.")
endif()
include(Architectures)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.0 or newer is needed.")
endif()

# nvcc may use an older g++ than the one that links: its folder of libraries must not come first.
list(FILTER CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES EXCLUDE REGEX "/gcc/")

# CMake 3.25.1 ignores CMAKE_CUDA_STANDARD 20 with nvcc 12 and newer, so the flag is given by hand.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")
find_package(CUDAToolkit REQUIRED)
