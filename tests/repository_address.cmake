# The remotes that give the site an address to link to, and those that do not. Run by CTest.
set(PROJECT_SOURCE_DIR "${CMAKE_CURRENT_LIST_DIR}/nowhere")
include("${CMAKE_CURRENT_LIST_DIR}/../cmake/Repository.cmake")
if(NOT RMSNORM_REPOSITORY_URL STREQUAL "")
  message(FATAL_ERROR "without a repository there is an address: ${RMSNORM_REPOSITORY_URL}")
endif()

function(check remote expected)
  address_of_remote(address "${remote}")
  if(NOT address STREQUAL expected)
    message(FATAL_ERROR "'${remote}' gives '${address}', not '${expected}'")
  endif()
endfunction()

check(https://github.com/a/b https://github.com/a/b)
check(https://github.com/a/b.git https://github.com/a/b)
check(http://github.com/a/b.git/ https://github.com/a/b)
check(https://name:password@github.com/a/b https://github.com/a/b)
check(git@gitlab.com:a/b/c.git https://gitlab.com/a/b/c)
check(ssh://git@codeberg.org/a/b.git https://codeberg.org/a/b)
foreach(remote "" /srv/git/a.git file:///srv/git/a.git ../github.com/a/b https://example.com/a/b
               git@git.example.com:a/b.git https://github.com.example.com/a/b https://github.com)
  check("${remote}" "")
endforeach()
