# An edit is a small file that changes a kernel. Wrong kernels are edits of right ones, and a lesson's
# exercise is an edit of its kernel. tests/edits/forgets_weight.edit:
#
#   Mutant: forgets the weight
#   In lessons/02_naive/rms_norm.cu:
#   Rejected on 1 x 1: row 0, column 0: expected
#
#   -    y[col] = x[col] * rstd * weight[col];
#   +    y[col] = x[col] * rstd;  // <-- mistake
#
# Its head, up to the first empty line, says what it is and what has to come of it (tests/edits.hpp).
# As in a diff, lines with a "-" go, lines with a "+" come, and those with a blank stay. "-..." is all
# lines between the one before and the one behind. An empty line stands between two places of the
# kernel, each of which must be there exactly once. A mark like "// <-- mistake" is the edit's own,
# behind a line that stays, too.

# edited_copy(EDIT COPY [SLUG slug] [PLAIN]): makes the file COPY, whose kernels register as SLUG, if
# given. For the compiler and the CPU device, the lines that the edit shows are lines of the edit, and
# all others are lines of the kernel. A PLAIN copy is to be read and changed: it has lines of its own,
# and neither the variants nor the tags by which a page takes its code. Where the edit does not apply,
# COPY does not compile: a reader who changes a lesson can still build it.
function(edited_copy edit copy)
  cmake_parse_arguments(PARSE_ARGV 2 arg "PLAIN" "SLUG" "")
  file(READ "${edit}" rest)
  string(FIND "${rest}" "\n\n" end)
  string(SUBSTRING "${rest}" 0 ${end} head)
  string(SUBSTRING "${rest}" ${end} -1 rest)
  if(NOT rest MATCHES "^(\n[-+ ][^\n]*|\n)+$" OR NOT head MATCHES "^[^\n]+\nIn ([^\n]+):")
    message(FATAL_ERROR "${edit} is no edit: cmake/Edits.cmake says what one looks like")
  endif()
  cmake_path(ABSOLUTE_PATH CMAKE_MATCH_1
    BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE source)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${edit}" "${source}")
  if(source MATCHES "/exercise\\.edit$")
    plain_copy_of("${source}" source)
  endif()
  file(READ "${source}" kernel)
  set(kernel "\n${kernel}")  # every line is between two line ends
  if(arg_PLAIN)
    remove_tags(kernel)
  endif()
  set(code "${kernel}")

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
    set(left "\n ")  # a line that goes leaves an empty one
    if(arg_PLAIN)
      set(left "")
    endif()
    string(REGEX REPLACE "\n-[^\n]*" "${left}" new "${place}\n")
    string(REGEX REPLACE "\n[+ ]" "\n" new "${new}")

    find_place(at text "${kernel}" "${old}")
    if(at LESS 0)
      set(why "${edit} does not apply: these lines must be in ${source} exactly once:")
      if(CMAKE_SCRIPT_MODE_FILE)
        file(REMOVE "${copy}")  # that of another edit, perhaps
        message(FATAL_ERROR "${why}${old}")
      endif()
      string(REPLACE "\n" "\n//" old "${old}")
      write_if_different("${copy}" "#error \"${why}\"${old}\n")
      return()
    endif()
    if(NOT arg_PLAIN)
      string(SUBSTRING "${kernel}" 0 ${at} kernel_before)
      count_lines(edit_line "${passed}${before}\n\n")
      count_lines(kernel_line "${kernel_before}${text}")
      set(new "\n#line ${edit_line} \"${edit}\"${new}#line ${kernel_line} \"${source}\"\n")
    endif()
    string(REPLACE "${text}" "${new}" code "${code}")
    string(APPEND passed "${before}${place}")
  endwhile()

  if(arg_SLUG)
    cmake_path(GET source PARENT_PATH slug)
    cmake_path(GET slug FILENAME slug)
    string(REPLACE "\"${slug}" "\"${arg_SLUG}" code "${code}")
  endif()
  if(arg_PLAIN)
    string(SUBSTRING "${code}" 1 -1 code)
  else()
    set(code "#line 1 \"${source}\"${code}")
  endif()
  write_if_different("${copy}" "${code}")
endfunction()

function(write_if_different file text)
  set(old "")
  if(EXISTS "${file}")
    file(READ "${file}" old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE "${file}" "${text}")
  endif()
endfunction()

# The file that an exercise's edit makes; in a script, beside the one that is wanted.
function(plain_copy_of edit result)
  cmake_path(GET edit PARENT_PATH slug)
  cmake_path(GET slug FILENAME slug)
  set(copy "${PROJECT_BINARY_DIR}/exercises/${slug}.cu")
  if(CMAKE_SCRIPT_MODE_FILE)
    cmake_path(GET COPY PARENT_PATH folder)
    set(copy "${folder}/exercise_${slug}.cu")
  endif()
  edited_copy("${edit}" "${copy}" PLAIN)
  set(${result} "${copy}" PARENT_SCOPE)
endfunction()

# Where these lines are in a text, and the text that they are there; -1 if that is not one place.
function(find_place result_at result_text text lines)
  string(FIND "${lines}" "\n...\n" gap)
  set(behind "")
  if(gap GREATER -1)
    math(EXPR gap "${gap} + 1")
    string(SUBSTRING "${lines}" 0 ${gap} first)
    math(EXPR gap "${gap} + 3")
    string(SUBSTRING "${lines}" ${gap} -1 behind)
    set(lines "${first}")
    if(behind STREQUAL "\n")
      message(FATAL_ERROR "an edit ends with \"-...\": a line has to say where that ends")
    endif()
  endif()
  string(FIND "${text}" "${lines}" at)
  string(FIND "${text}" "${lines}" last REVERSE)
  if(NOT at EQUAL last)
    set(at -1)
  endif()
  if(behind AND at GREATER -1)
    string(LENGTH "${lines}" length)
    math(EXPR begin "${at} + ${length} - 1")
    string(SUBSTRING "${text}" ${begin} -1 rest)
    string(FIND "${rest}" "${behind}" end)
    string(LENGTH "${behind}" length_behind)
    math(EXPR length "${length} - 1 + ${end} + ${length_behind}")
    string(SUBSTRING "${text}" ${at} ${length} lines)
    if(end LESS 0)
      set(at -1)
    endif()
  endif()
  set(${result_at} ${at} PARENT_SCOPE)
  set(${result_text} "${lines}" PARENT_SCOPE)
endfunction()

# Takes tags, "// [kernel]", out of a text, and all that is between two of variants.
function(remove_tags text)
  set(rest "${${text}}")
  set(kept "")
  while(rest MATCHES "\n// \\[variant\\]\n")
    string(FIND "${rest}" "\n// [variant]\n" at)
    string(SUBSTRING "${rest}" 0 ${at} before)
    string(APPEND kept "${before}")
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(FIND "${rest}" "\n// [variant]\n" at)
    if(at LESS 0)
      message(FATAL_ERROR "a variant has a beginning and no end: // [variant]")
    endif()
    string(LENGTH "\n// [variant]\n" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)  # and the empty line behind it
  endwhile()
  string(REGEX REPLACE "\n *// \\[[a-z_0-9]+\\]\n" "\n" kept "${kept}${rest}")
  set(${text} "${kept}" PARENT_SCOPE)
endfunction()

function(count_lines result text)
  string(REGEX REPLACE "[^\n]" "" line_ends "${text}")
  string(LENGTH "${line_ends}" count)
  set(${result} ${count} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)  # as lesson 14's page has it
  edited_copy("${EDIT}" "${COPY}" ${AS})
endif()
