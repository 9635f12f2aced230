# Warnings are errors in this project's own code, in every compiler that sees it.
#
# -Wpedantic stays with the host compiler: nvcc's generated code uses GNU line directives.
add_library(rmsnorm_warnings INTERFACE)
target_compile_options(rmsnorm_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Werror=all-warnings>)

# g++ 12 sees overlapping copies in correct uses of std::string's operator+ (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(rmsnorm_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

if(RMSNORM_SANITIZE)
  set(flags -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  string(REPLACE ";" "," flags_for_nvcc "${flags}")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${flags}>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flags_for_nvcc}>")
  add_link_options(${flags})
endif()
