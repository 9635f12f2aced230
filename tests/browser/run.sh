#!/usr/bin/env bash
# Tests a site's pages in a headless Chromium: that they load without an error, can be read and used,
# and fit a phone, and that the interactive figures on them do what they say.
# usage: tests/browser/run.sh FOLDER_OF_THE_SITE [options of Python's unittest, as -k sorted]
# Exit code 4: something is missing here. CHROMIUM names another browser.
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
for python in python3 /usr/bin/python3; do # the distribution's selenium is with its own Python
  if "$python" -c 'import selenium' 2>/dev/null; then
    exec "$python" -B "$folder/test_pages.py" "$@"
  fi
done
echo "skipped: there is no Python with selenium here; on Debian, ./rmsnorm setup installs it" >&2
exit 4
