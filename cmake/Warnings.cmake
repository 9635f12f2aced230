# Warnings are shown, and end no reader's build: newer compilers know more of them. Where the project tests
# itself, they are errors (./rmsnorm test --all sets CMAKE_COMPILE_WARNING_AS_ERROR).
#
# -Wpedantic stays with the host compiler: nvcc's generated code uses GNU line directives.
add_library(rmsnorm_warnings INTERFACE)
target_compile_options(rmsnorm_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)

# g++ 12 sees overlapping copies in correct uses of std::string's operator+ (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(rmsnorm_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

if(RMSNORM_SANITIZE)
  # One flag for each sanitizer: nvcc takes a comma as the end of a flag.
  set(flags -O1 -fsanitize=address -fsanitize=undefined -fno-sanitize-recover=undefined
            -fno-omit-frame-pointer)
  string(REPLACE ";" "," flags_for_nvcc "${flags}")
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:${flags}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flags_for_nvcc}>")
  add_link_options(${flags})
  # With AddressSanitizer, g++ finds uninitialised values in its own <regex> (GCC bug 105562).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()
