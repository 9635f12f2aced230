# Writes OUTPUT, a C++ file that knows the revision; run at every build, rewrites only what changed.
execute_process(
  COMMAND git -c safe.directory=* describe --always --exclude=* --abbrev=12 --dirty
  WORKING_DIRECTORY "${SOURCE_DIR}"
  OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit "unknown")
endif()
cmake_policy(SET CMP0053 NEW)
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT
"#include \"common/base/device.hpp\"

const char* rmsnorm::build_commit() { return \"@commit@\"; }
")
