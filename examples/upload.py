"""A parser of CSV, as for any file: it does not know that Erlang sends what it reads."""

from __future__ import annotations

import csv
import io

import erlang


def total_by_country(upload: erlang.Channel) -> dict[str, tuple[int, int]]:
    """Return the number of rows and the sum of their amounts, for each country."""
    totals: dict[str, tuple[int, int]] = {}
    with io.TextIOWrapper(upload.file(), encoding="utf-8", newline="") as file:
        for country, amount, _note in csv.reader(file):
            count, total = totals.get(country, (0, 0))
            totals[country] = (count + 1, total + int(amount))
    return totals
