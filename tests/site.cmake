# The site: what makes its pages, and the pages themselves, which are built when the tests run.
add_executable(site_tests test_site.cpp)
target_link_libraries(site_tests PRIVATE tests_common site_pages rmsnorm_warnings)
catch_discover_tests(site_tests PROPERTIES SKIP_RETURN_CODE 4 LABELS unit TIMEOUT 60)

add_command_test(site.repository_address unit 60
  "${CMAKE_COMMAND}" -P "${CMAKE_CURRENT_SOURCE_DIR}/repository_address.cmake")

if(is_tested_once)
  add_command_test(site.is_built site 300
    "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target docs)
  set_tests_properties(site.is_built PROPERTIES
    FIXTURES_SETUP site RESOURCE_LOCK build COST 300)  # what takes longest begins first
  add_command_test(site.is_whole site 120
    python3 -B "${CMAKE_CURRENT_SOURCE_DIR}/test_built_site.py" "${SITE}/html")
  add_command_test(site.works_in_a_browser everything 1200
    "${CMAKE_CURRENT_SOURCE_DIR}/browser/run.sh" "${SITE}/html")
  set_tests_properties(site.is_whole site.works_in_a_browser PROPERTIES FIXTURES_REQUIRED site)
  add_command_test(contributing.is_as_described everything 1200
    "${CMAKE_CURRENT_SOURCE_DIR}/contributing.sh" "${PROJECT_SOURCE_DIR}")
  set_tests_properties(site.works_in_a_browser contributing.is_as_described PROPERTIES COST 300)
endif()
