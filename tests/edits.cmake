# Kernels that are wrong on purpose are copies of the lessons' with an edit. An edit is a small
# file, tests/mutants/forgets_weight.edit:
#
#   Mutant: forgets the weight
#   In lessons/02_naive/rms_norm.cu:
#   Rejected on 1 x 1: row 0, column 0: expected
#
#   -    y[col] = x[col] * rstd * weight[col];
#   +    y[col] = x[col] * rstd;  // <-- mistake
#
# Its head, up to the first empty line, says what it is and what has to come of it (edits.hpp).
# As in a diff, lines with a "-" go, lines with a "+" come, and those with a blank stay. An empty
# line stands between two places of the lesson, each of which must be there exactly once. A mark
# like "// <-- mistake" is the edit's own, behind a line that stays, too.

# edited_copy(EDIT COPY [SLUG]): makes the file COPY, whose kernels register as SLUG, if given. For
# the compiler and the CPU device, the lines that the edit shows are lines of the edit, and all
# others are lines of the lesson. Where the edit does not apply, COPY does not compile: a reader who
# changes a lesson can still build it.
function(edited_copy edit copy)
  file(READ "${edit}" rest)
  string(FIND "${rest}" "\n\n" end)
  string(SUBSTRING "${rest}" 0 ${end} head)
  string(SUBSTRING "${rest}" ${end} -1 rest)
  if(NOT rest MATCHES "^(\n[-+ ][^\n]*|\n)+$" OR NOT head MATCHES "^[^\n]+\nIn ([^\n]+):")
    message(FATAL_ERROR "${edit} is no edit: tests/edits.cmake says what one looks like")
  endif()
  cmake_path(ABSOLUTE_PATH CMAKE_MATCH_1
    BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE source)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${edit}" "${source}")
  file(READ "${source}" lesson)
  set(lesson "\n${lesson}")  # every line is between two line ends
  set(code "${lesson}")

  set(passed "${head}")  # of the edit
  while(rest MATCHES "(\n[-+ ][^\n]*)+")
    set(place "${CMAKE_MATCH_0}")
    string(FIND "${rest}" "${place}" at)
    string(SUBSTRING "${rest}" 0 ${at} before)
    string(LENGTH "${before}${place}" at)
    string(SUBSTRING "${rest}" ${at} -1 rest)

    string(REGEX REPLACE "\n[+][^\n]*" "" old "${place}")
    string(REGEX REPLACE "\n[- ]" "\n" old "${old}\n")
    string(REGEX REPLACE " +// <-- [a-z]+\n" "\n" old "${old}")
    string(REGEX REPLACE "\n-[^\n]*" "\n" new "${place}")  # a line that goes leaves an empty one
    string(REGEX REPLACE "\n[+ ]" "\n" new "${new}\n")

    string(FIND "${lesson}" "${old}" at)
    string(FIND "${lesson}" "${old}" last REVERSE)
    if(at LESS 0 OR NOT at EQUAL last)
      set(why "${edit} does not apply: these lines must be in ${source} exactly once:")
      if(CMAKE_SCRIPT_MODE_FILE)
        message(FATAL_ERROR "${why}${old}")
      endif()
      string(REPLACE "\n" "\n//" old "${old}")
      file(CONFIGURE OUTPUT "${copy}" CONTENT "#error \"${why}\"${old}\n" @ONLY)
      return()
    endif()
    string(SUBSTRING "${lesson}" 0 ${at} lesson_before)
    count_lines(edit_line "${passed}${before}\n\n")
    count_lines(lesson_line "${lesson_before}${old}")
    set(new "\n#line ${edit_line} \"${edit}\"${new}#line ${lesson_line} \"${source}\"\n")
    string(REPLACE "${old}" "${new}" code "${code}")
    string(APPEND passed "${before}${place}")
  endwhile()

  if(ARGC GREATER 2)
    cmake_path(GET source PARENT_PATH slug)
    cmake_path(GET slug FILENAME slug)
    string(REPLACE "\"${slug}" "\"${ARGV2}" code "${code}")
  endif()
  file(CONFIGURE OUTPUT "${copy}" CONTENT "#line 1 \"${source}\"${code}" @ONLY)
endfunction()

function(count_lines result text)
  string(REGEX REPLACE "[^\n]" "" line_ends "${text}")
  string(LENGTH "${line_ends}" count)
  set(${result} ${count} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)  # as lesson 14's page has it
  edited_copy("${EDIT}" "${COPY}")
endif()
