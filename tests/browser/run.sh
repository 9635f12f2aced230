#!/usr/bin/env bash
# Tests pages in a headless Chromium: that they load without an error, fit a phone, and that the
# interactive figures on them do what they say.
# usage: tests/browser/run.sh [PAGE.html...]    without a page: each figure on a page of its own
# Exit code 4: there is no Chromium here, or no Python.
set -euo pipefail
if ! command -v python3 >/dev/null; then
  echo "skipped: there is no python3 here" >&2
  exit 4
fi
folder=$(cd "$(dirname "$0")" && pwd)
exec python3 -B "$folder/test_pages.py" "$@"
