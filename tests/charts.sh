#!/usr/bin/env bash
# Tests that the charts in plots/charts are those of the recorded results.
# usage: tests/charts.sh PLOT_CHARTS
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --csv "$top/plots/data/nvidia-h200.csv" --trace "$top/plots/data/cpu-device-trace.csv" \
  --out "$folder/charts" >"$folder/said"

# They were drawn by this gnuplot. Others write other numbers, but the same words above the chart.
said_in() { # CHART
  if [[ $(gnuplot --version) == "gnuplot 5.4 "* ]]; then cat "$1"; else grep -E '<(title|desc)>' "$1"; fi
}

status=0
diff <(ls "$folder/charts") <(ls "$top/plots/charts") || status=1
for chart in "$folder"/charts/*.svg; do
  name=plots/charts/${chart##*/}
  if ! grep -q '<title>' "$top/$name" || ! cmp -s <(said_in "$chart") <(said_in "$top/$name"); then
    echo "$name is not what the results make; ./rmsnorm plot draws it anew" >&2
    status=1
  fi
done
exit "$status"
