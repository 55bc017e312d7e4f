#!/usr/bin/env python3
"""Draws Documentation/benchmark.svg from Benchmarks/recorded.tsv: time per operation, as bars on a logarithmic scale.

    python3 Scripts/draw-benchmark.py

The table has lines `# name: value` for the caption, a line of titles, and the columns operation, store and nanoseconds. A
combination that was not measured has no row. Stores are drawn in the order in which they first occur.
"""

import html
import math
import pathlib
import sys

OPERATIONS = ["get Int", "get String", "get struct", "set Int", "set String"]
OWN = "FileKVStore"
WIDTH, LEFT, RIGHT, TOP = 840, 236, 80, 96  # Names of stores stand left of the bars, figures right of them.
BAR, PITCH, GAP = 12, 18, 34

STYLE = """
    text { font: 13px -apple-system, BlinkMacSystemFont, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .strong { font-weight: 600 }
    .muted { fill: #59636e; font-size: 12px }
    .end { text-anchor: end }
    .middle { text-anchor: middle }
    .figure { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
    .page { fill: #ffffff; stroke: #d1d9e0 }
    .grid { stroke: #d1d9e0 }
    .peer { fill: #afb8c1 }
    .own { fill: #bc4c00 }
    @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc } .muted { fill: #9198a1 } .figure { stroke: #0d1117 }
        .page { fill: #0d1117; stroke: #3d444d } .grid { stroke: #3d444d }
        .peer { fill: #656c76 } .own { fill: #ff9b50 }
    }
"""


def read(path):
    """The caption's values by name, and the nanoseconds by operation and store."""
    caption, times = {}, {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("#"):
            name, _, value = line.lstrip("# ").partition(": ")
            caption[name] = value
        elif line and not line.startswith("operation\t"):
            fields = line.split("\t")
            if len(fields) != 3 or fields[0] not in OPERATIONS or not float(fields[2]) > 0:
                sys.exit(f"draw-benchmark: {path.name}, line {number}: not an operation, a store and nanoseconds")
            times[fields[0], fields[1]] = float(fields[2])
    return caption, times


def shown(nanoseconds):
    """A time of two or three digits, with its unit."""
    size, unit = next((s, u) for s, u in ((1e6, "ms"), (1e3, "µs"), (1, "ns")) if nanoseconds >= s or s == 1)
    value = nanoseconds / size
    return f"{value:.2g} {unit}" if value < 10 else f"{value:.0f} {unit}"


def text(x, y, classes, content):
    return f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}">{html.escape(content)}</text>'


root = pathlib.Path(__file__).resolve().parent.parent
caption, times = read(root / "Benchmarks" / "recorded.tsv")
if not times:
    sys.exit("draw-benchmark: the table has no rows")
stores = list(dict.fromkeys(store for _, store in times))
first = math.floor(math.log10(min(times.values())))
last = max(first + 1, math.ceil(math.log10(max(times.values()))))
decade = (WIDTH - LEFT - RIGHT) / (last - first)
bars, y = [], TOP
for operation in OPERATIONS:
    rows = [(store, times[operation, store]) for store in stores if (operation, store) in times]
    if rows:
        bars.append(text(28, y + BAR - 1, "strong", operation))
    for store, time in rows:
        kind, weight = ("own", "strong ") if store == OWN else ("peer", "")
        length = max(2, decade * (math.log10(time) - first))
        bars.append(text(LEFT - 10, y + BAR - 1, weight + "end", store))
        bars.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        bars.append(text(LEFT + length + 8, y + BAR - 1, weight + "figure", shown(time)))
        y += PITCH
    y += GAP - PITCH if rows else 0
drawn = [text(28, 36, "title", "Time per operation"), text(28, 56, "muted", "1,000 keys; logarithmic scale, shorter is faster")]
for power in range(first, last + 1):
    x = LEFT + decade * (power - first)
    drawn.append(f'<path class="grid" d="M{x:.1f} {TOP - 8}V{y - 8}"/>')
    drawn.append(text(x, TOP - 16, "muted middle", shown(10 ** power)))
about = ", ".join(caption[name] for name in ("machine", "date") if name in caption)
drawn += bars + [text(28, y + 18, "muted", about), text(28, y + 36, "muted", caption.get("command", ""))]
(root / "Documentation" / "benchmark.svg").write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 56}" viewBox="0 0 {WIDTH} {y + 56}" role="img">\n'
    f"<title>Time per operation of {html.escape(', '.join(stores))}</title>\n<style>{STYLE}</style>\n"
    f'<rect class="page" x=".5" y=".5" width="{WIDTH - 1}" height="{y + 55}" rx="10"/>\n' + "\n".join(drawn) + "\n</svg>\n")
