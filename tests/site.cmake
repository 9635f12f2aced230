# The site: what makes its pages, and the pages themselves, which are built when the tests run.
add_executable(site_tests test_site.cpp)
target_link_libraries(site_tests PRIVATE tests_common site_pages rmsnorm_warnings)
catch_discover_tests(site_tests PROPERTIES SKIP_RETURN_CODE 4 LABELS unit TIMEOUT 60)

add_test(NAME site.repository_address
  COMMAND "${CMAKE_COMMAND}" -P "${CMAKE_CURRENT_SOURCE_DIR}/repository_address.cmake")
set_tests_properties(site.repository_address PROPERTIES LABELS unit TIMEOUT 60)

# The site is the same for every device.
if(RMSNORM_DEVICE STREQUAL "cpu" AND NOT RMSNORM_SANITIZE)
  add_test(NAME site.is_built
    COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target docs)
  set_tests_properties(site.is_built PROPERTIES
    FIXTURES_SETUP site LABELS site TIMEOUT 300 RESOURCE_LOCK build COST 300)  # what takes longest begins first

  add_test(NAME site.is_whole
    COMMAND python3 -B "${CMAKE_CURRENT_SOURCE_DIR}/test_built_site.py" "${SITE}/html")
  set_tests_properties(site.is_whole
    PROPERTIES LABELS site TIMEOUT 120 FIXTURES_REQUIRED site)

  add_test(NAME site.works_in_a_browser
    COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/browser/run.sh" "${SITE}/html")
  set_tests_properties(site.works_in_a_browser
    PROPERTIES LABELS everything TIMEOUT 1200 FIXTURES_REQUIRED site SKIP_RETURN_CODE 4 COST 300)

  add_test(NAME contributing.is_as_described
    COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/contributing.sh" "${PROJECT_SOURCE_DIR}")
  set_tests_properties(contributing.is_as_described PROPERTIES LABELS everything TIMEOUT 1200 COST 200)
endif()
