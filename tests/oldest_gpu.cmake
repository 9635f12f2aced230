# nvcc takes every kernel for the oldest GPU that the README promises. There need be no GPU: nothing of
# it runs, so nothing is optimised. What has not changed since the last test is not compiled again.
set(readme "${PROJECT_SOURCE_DIR}/README.md")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${readme}")
file(READ "${readme}" promise)
if(NOT promise MATCHES "compute capability ([0-9]+)[.]([0-9]) or newer")
  message(FATAL_ERROR "README.md does not say which compute capability is needed.")
endif()
set(oldest sm_${CMAKE_MATCH_1}${CMAKE_MATCH_2})

set(test nvcc.compiles_every_kernel_for_the_oldest_gpu)
find_program(NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
if(NOT NVCC)
  add_test(NAME ${test} COMMAND "${CMAKE_COMMAND}" -E echo "skipped: nvcc was not found")
  set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " LABELS nvcc)
  return()
endif()

file(GLOB kernels CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/common/*/*.cu" "${PROJECT_SOURCE_DIR}/lessons/*/*.cu"
  "${CMAKE_CURRENT_SOURCE_DIR}/operations/*/*.cu")
set(compiled "")
foreach(kernel IN LISTS kernels)
  cmake_path(RELATIVE_PATH kernel BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE place)
  set(cubin "${CMAKE_CURRENT_BINARY_DIR}/${oldest}/${place}.cubin")
  cmake_path(GET cubin PARENT_PATH folder)
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(
    OUTPUT "${cubin}"
    COMMAND "${NVCC}" -cubin -arch=${oldest} -std=c++20 -Werror=all-warnings -Xcicc=-O1 -Xptxas=-O0
            -I "${PROJECT_SOURCE_DIR}" -MD -MF "${cubin}.d" -o "${cubin}" "${kernel}"
    DEPENDS "${kernel}"
    DEPFILE "${cubin}.d"
    COMMENT "Compiling ${place} for ${oldest}"
    VERBATIM)
  list(APPEND compiled "${cubin}")
endforeach()
add_custom_target(kernels_for_oldest_gpu DEPENDS ${compiled})
add_test(NAME ${test}
  COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target kernels_for_oldest_gpu)
set_tests_properties(${test} PROPERTIES LABELS nvcc TIMEOUT 1200 RESOURCE_LOCK build)
