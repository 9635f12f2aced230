# Turns plans.csv, which ./rmsnorm tune writes, into the table that the library compiles in. A line is
# for one GPU, one size of elements and one length of rows, and says the shape (kernels/forward_shape.hpp) that
# was faster there than the formula's, by which factor, and where that was measured. Whether there is
# such a kernel, the compiler finds out, and names the line.
cmake_policy(VERSION 3.24)  # an empty line is one, too

# plans_header(CSV HEADER): writes the file HEADER. What is wrong with CSV is an error.
function(plans_header csv header)
  file(STRINGS "${csv}" lines)
  set(columns
    device,operation,element_bytes,vectors,kind,threads,thread_vectors,cluster,gain,driver,version,date)
  list(POP_FRONT lines first)
  if(NOT first STREQUAL columns)
    message(FATAL_ERROR "${csv}:1: the columns need to be ${columns}, not '${first}'")
  endif()

  set(number "([1-9][0-9]?[0-9]?[0-9]?[0-9]?[0-9]?)")
  set(form "^([^,\"]+),rms_norm,([24]),${number},(aligned|cluster|long_rows)")
  string(APPEND form ",${number},${number},${number},[0-9.]+,[^,\"]*,[^,\"]*,[^,\"]*$")
  set(code "")
  set(checks "")
  set(before "")
  set(line_number 1)
  foreach(line IN LISTS lines)
    math(EXPR line_number "${line_number} + 1")
    set(place "${csv}:${line_number}")
    if(NOT line MATCHES "${form}")
      message(FATAL_ERROR "${place}: a line needs to be like "
        "'NVIDIA H200,rms_norm,2,96,aligned,96,2,1,1.02,580.1,abc,2026-11-23', not '${line}'")
    endif()
    # As texts of one length, numbers have the order of texts.
    string(LENGTH "${CMAKE_MATCH_3}" digits)
    set(key "${CMAKE_MATCH_1}\t${CMAKE_MATCH_2},${digits},${CMAKE_MATCH_3}")
    if(NOT key STRGREATER before)
      message(FATAL_ERROR "${place}: lines need to ascend by device, element_bytes and vectors, and "
        "each to be for other rows; this one does not come after the one above it")
    endif()
    set(before "${key}")
    set(shape "{Kind::${CMAKE_MATCH_4}, ${CMAKE_MATCH_5}, ${CMAKE_MATCH_6}, ${CMAKE_MATCH_7}}")
    string(APPEND checks "#line ${line_number} \"${csv}\"\nstatic_assert(is_for(${shape}, "
      "${CMAKE_MATCH_3}), \"the library has no kernel of this shape for rows of so many vectors\");\n")
    string(APPEND code "    {\"${CMAKE_MATCH_1}\", ${CMAKE_MATCH_2}, ${CMAKE_MATCH_3}, ${shape}},\n")
  endforeach()
  math(EXPR size "${line_number} - 1")
  file(CONFIGURE OUTPUT "${header}" @ONLY CONTENT "// Made of plans.csv by plans.cmake, for tuned.cpp.
#include <array>

#include \"library/kernels/tuned.hpp\"

namespace rmsnorm::kernels {
${checks}
inline constexpr std::array<Tuned, ${size}> kPlans{{
${code}}};
}  // namespace rmsnorm::kernels
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)  # for the tests
  plans_header("${CSV}" "${HEADER}")
endif()
