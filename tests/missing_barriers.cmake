# For each __syncthreads() of each lesson: the lesson's program without that one barrier, called
# SLUG_without_barrier_N. test_missing_barriers.cpp runs them.
set(missing_barriers "${CMAKE_CURRENT_BINARY_DIR}/missing_barriers")
add_custom_target(missing_barriers)
file(GLOB kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lessons/[0-9][0-9]_*/rms_norm.cu")

foreach(kernel IN LISTS kernels)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${kernel}")
  cmake_path(GET kernel PARENT_PATH folder)
  cmake_path(GET folder FILENAME slug)
  file(READ "${kernel}" rest)
  set(before "")
  set(number 0)
  while(TRUE)
    string(FIND "${rest}" "__syncthreads();" at)
    if(at LESS 0)
      break()
    endif()
    string(SUBSTRING "${rest}" 0 ${at} passed)
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(REGEX REPLACE "^__syncthreads\\(\\);" "" without "${rest}")
    math(EXPR number "${number} + 1")
    set(program ${slug}_without_barrier_${number})

    # Messages name the lesson's file and line.
    set(copy "${missing_barriers}/${program}.cu")
    file(CONFIGURE OUTPUT "${copy}"
      CONTENT "#line 1 \"${kernel}\"\n${before}${passed}${without}" @ONLY)
    add_executable(${program} EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/common/main.cpp")
    add_kernels(${program} OBSERVED "${copy}")
    target_link_libraries(${program} PRIVATE other_kernels rmsnorm_harness rmsnorm_warnings)
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${missing_barriers}")
    add_dependencies(missing_barriers ${program})

    string(APPEND before "${passed}__syncthreads();")
    string(SUBSTRING "${rest}" 16 -1 rest)  # behind the barrier
  endwhile()
endforeach()
