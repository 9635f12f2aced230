#!/usr/bin/env bash
# Follows docs/contributing.md: runs its commands, all but the tests, in a copy of the repository.
set -euo pipefail
source=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

(cd "$source" && tar cf - --exclude=./build --exclude=./.git .) | tar xf - -C "$copy"
cd "$copy"
awk '/^## What a lesson/ { exit } /^```sh/ { on = 1; next } /^```/ { on = 0 } on' docs/contributing.md |
  grep -v -e '^\./rmsnorm test' -e '^ctest' |
  sed 's#^\./rmsnorm exercise .*#& || [ $? -eq 4 ] \# right, and its goals are not reached#' >steps.sh
grep -q '^\./rmsnorm lesson 98' steps.sh || { echo "the page runs no lesson 98" >&2; exit 1; }
bash -euo pipefail steps.sh >said 2>errors || { cat said errors >&2; exit 1; }

for said in '98_my_idea .*My idea' '98_my_idea, per row' 'prefill .* PASS ' 'lessons/98_my_idea/rms_norm.cu .*PASS  on' 'at most 2 barriers'; do
  grep -q "$said" said || { echo "nothing like '$said' was said:" >&2; cat said errors >&2; exit 1; }
done
