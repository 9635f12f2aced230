# What the site's pages link to: the repository's own address.

# The address of a remote's page on a public forge, without the name and password of whoever uses the
# remote; empty for any other.
function(address_of_remote address remote)
  set(${address} "" PARENT_SCOPE)
  if(remote MATCHES "^(https?://([^/@]*@)?|(ssh://)?git@)(github\\.com|gitlab\\.com|codeberg\\.org)[:/](.+)$")
    set(host "${CMAKE_MATCH_4}")
    string(REGEX REPLACE "/+$" "" path "${CMAKE_MATCH_5}")
    string(REGEX REPLACE "\\.git$" "" path "${path}")
    set(${address} "https://${host}/${path}" PARENT_SCOPE)
  endif()
endfunction()

set(origin "")
if(EXISTS "${PROJECT_SOURCE_DIR}/.git")
  execute_process(
    COMMAND git -c safe.directory=* remote get-url origin
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE origin
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
address_of_remote(address "${origin}")
set(RMSNORM_REPOSITORY_URL "${address}" CACHE STRING
  "The repository's address, which the site links to; empty: no links")
