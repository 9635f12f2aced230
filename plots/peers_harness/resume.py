"""What a file of results already has: peers.py --resume. Needs no PyTorch."""

import csv

from .cases import all_cases
from .results import Row


def _place(case):
    """What a case and its rows have in common."""
    return case.regime, case.dtype, str(case.rows), str(case.hidden)


def read(path):
    """The rows of the file, whose fields stay text; none if there is no file."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [Row(**fields) for fields in csv.DictReader(file)]
    except FileNotFoundError:
        return []


def lacking(rows, cases, revisions):
    """The cases without a row of librmsnorm of one of these revisions."""
    measured = {
        _place(row) for row in rows
        if row.implementation == "librmsnorm" and row.version in revisions}
    return [case for case in cases if _place(case) not in measured]


def merged(old, new):
    """All rows, in the order of the cases; of an old and a new one of the same thing, the new."""
    def thing(row):
        return _place(row), row.implementation

    replaced = {thing(row) for row in new}
    order = {_place(case): i for i, case in enumerate(all_cases())}
    return sorted(
        [row for row in old if thing(row) not in replaced] + new,
        key=lambda row: order.get(_place(row), len(order)))
