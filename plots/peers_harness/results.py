"""Statistics of samples, and the CSV of common/records/csv.cpp. Needs no PyTorch."""

import csv
import math
import os
import statistics
from dataclasses import dataclass, fields
from pathlib import Path

NOISY_PCT = 5  # above this spread a result is called noisy: kNoisyPct of common/records/result.hpp


@dataclass
class Row:
    """A line of the CSV, in the header's order; None is an empty field.

    The version of librmsnorm is its revision. `bytes` are those that the operation must move, and
    `bytes_per_row_predicted` is their number for one row: the same for every implementation. `cuda`
    is the toolkit of PyTorch.
    """

    operation: str
    implementation: str
    regime: str
    dtype: str
    rows: int
    hidden: int
    sizes: str = ""
    cache: str = ""
    median_us: float | None = None
    spread_pct: float | None = None
    samples: int = 0
    disturbed: str = ""
    bytes: int = 0
    gbps: float | None = None
    roof: str = ""
    roof_gbps: float | None = None
    peak_gbps: float | None = None
    bytes_per_row_predicted: float = 0
    max_error: float | None = None
    error_bound: float | None = None
    verdict: str = ""
    device: str = ""
    driver: str = ""
    cuda: str = ""
    version: str = ""
    date: str = ""


HEADER = [column.name for column in fields(Row)]


@dataclass
class Timing:
    """Time of one launch, from many samples, as in common/measure/benchmark.cpp."""

    median_us: float
    spread_pct: float  # half the distance from the 10th to the 90th percentile, % of the median
    samples: int


def summarise(samples):
    """Median and spread of the times of one launch, in microseconds."""
    tenths = statistics.quantiles(samples, n=10, method="inclusive")
    median = statistics.median(samples)
    return Timing(median, 100 * (tenths[8] - tenths[0]) / 2 / median, len(samples))


def gbps(bytes_moved, microseconds):
    """GB/s, with 10^9 bytes in a GB."""
    return bytes_moved / microseconds / 1e3


def to_text(value):
    """A field's text: six significant digits; nothing for what is not there or not finite."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_csv(path, rows):
    """Writes the file under a temporary name first, so that it is whole at any time."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for row in rows:
            writer.writerow(to_text(getattr(row, name)) for name in HEADER)
    os.replace(partial, path)
