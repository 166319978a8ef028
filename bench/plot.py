"""Draws how many times better erlang_loop is, case by case, as SVG. No library is needed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from bench.registry import LOOPS
from bench.rounds import Results
from bench.summary import ratios

COLOURS = {
    "asyncio": "#3b75af",
    "uvloop": "#e0812b",
    "rloop": "#519e3e",
    "rsloop": "#8d69b8",
    "zloop": "#84584e",
    "zuvloop": "#d57dbf",
}
#: Those that were measured.
OTHERS = {loop: COLOURS[loop] for loop in LOOPS if loop in COLOURS}
BAR = 5
ROW = 4 + (BAR + 1) * len(OTHERS)
LEFT = 170
WIDTH = 620
TOP = 52
TICKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32)


def draw(results: Results, names: Iterable[str]) -> str:
    by_loop = {loop: ratios(results, loop, list(names)) for loop in OTHERS}
    shown = [name for name in names if any(name in found for found in by_loop.values())]
    values = [one.value for found in by_loop.values() for one in found.values()]
    low = min(0.5, *values, 1) if values else 0.5
    high = max(2, *values) if values else 2
    scale = _Scale(low / 1.1, high * 1.3)
    height = TOP + ROW * len(shown) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="17" font-size="13">How many times better erlang_loop is than</text>',
        *_legend(),
        *_grid(scale, height),
    ]
    for row, name in enumerate(shown):
        y = TOP + ROW * row
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + ROW // 2 + 2}" text-anchor="end">{escape(name)}</text>'
        )
        for index, (loop, colour) in enumerate(OTHERS.items()):
            one = by_loop[loop].get(name)
            if one is not None:
                parts.append(_bar(scale, one.value, y + 2 + index * (BAR + 1), colour))
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """Logarithmic: twice as fast is as far from 1 as half as fast."""

    def __init__(self, low: float, high: float) -> None:
        self.low = math.log(low)
        self.width = math.log(high) - self.low

    def at(self, value: float) -> float:
        return LEFT + (math.log(value) - self.low) / self.width * WIDTH

    def shows(self, value: float) -> bool:
        return 0 <= math.log(value) - self.low <= self.width


def _legend() -> list[str]:
    parts = []
    for index, (loop, colour) in enumerate(OTHERS.items()):
        x = LEFT + 300 + index * 90
        parts.append(f'<rect x="{x}" y="8" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="17">{loop}</text>')
    return parts


def _grid(scale: _Scale, height: int) -> list[str]:
    parts = []
    for tick in TICKS:
        if scale.shows(tick):
            x = scale.at(tick)
            stroke = "#333" if tick == 1 else "#ddd"
            parts.append(
                f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 8}" '
                f'stroke="{stroke}"/>'
            )
            parts.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{tick:g}</text>')
    return parts


def _bar(scale: _Scale, value: float, y: float, colour: str) -> str:
    one, end = scale.at(1), scale.at(value)
    left, width = min(one, end), max(1.0, abs(end - one))
    return (
        f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}">'
        f"<title>{value:.2f}</title></rect>"
    )
