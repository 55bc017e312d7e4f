#!/usr/bin/env python3
"""Draws Documentation/demo.svg, a recording of `forge demo`, from the command's output.

    forge demo | python3 Scripts/draw-demo.py
"""

import html
import pathlib
import re
import sys
import textwrap

COMMAND = "forge demo"
SECONDS = 10  # From the command to the last line.
COLUMNS, CELL = 98, 34  # The widest line, and the widest cell of a table.
WIDTH, LINE_HEIGHT, LEFT, TOP = 840, 20, 24, 60

STYLE = """
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; fill: #1f2328 }
    .title { font-weight: 600; fill: #bc4c00 }
    .muted { fill: #59636e }
    .page { fill: #ffffff; stroke: #d1d9e0 }
    .bar { fill: #d1d9e0 }
    @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc } .title { fill: #ff9b50 } .muted { fill: #9198a1 }
        .page { fill: #0d1117; stroke: #3d444d } .bar { fill: #3d444d }
    }
    @keyframes appear { from { opacity: 0 } }
    .later { animation: appear 0.2s backwards }
    @media (prefers-reduced-motion: reduce) { .later { animation: none } }
"""


def shortened(cell):
    """The cell, without the middle of what is too long."""
    return cell if len(cell) <= CELL else f"{cell[:CELL // 2]}…{cell[1 - CELL // 2:]}"


def table(rows, rule):
    """The rows of a table, as wide as their shortened cells; the rule below the titles tells the columns."""
    spans = [match.span() for match in re.finditer("─+", rule)]
    cells = [[shortened(row[start:end].strip()) for start, end in spans] for row in rows if row != rule]
    widths = [max(map(len, column)) for column in zip(*cells)]
    numeric = [all(cell.isdigit() for cell in column[1:]) for column in zip(*cells)]
    cells.insert(1, ["─" * width for width in widths])
    for row in cells:
        aligned = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(row, widths, numeric)]
        yield "  " + "  ".join(aligned).rstrip()


def fitted(lines):
    """The lines, none wider than the terminal: cells are shortened, other lines wrapped."""
    for index, line in enumerate(lines):
        if "──" in line:
            end = next((i for i in range(index, len(lines)) if not lines[i].startswith(" ")), len(lines))
            body = list(table(lines[index - 1:end], line))
            return fitted(lines[:index - 1]) + body + fitted(lines[end:])
    wrapper = textwrap.TextWrapper(COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return [part for line in lines for part in wrapper.wrap(line) or [""]]


lines = fitted([line.rstrip() for line in sys.stdin])
if not lines:
    sys.exit("draw-demo: standard input is empty")
y = TOP
drawn = [f'<text x="{LEFT}" y="{y}" xml:space="preserve"><tspan class="muted">$ </tspan>{COMMAND}</text>']
for index, line in enumerate(lines, 1):
    kind = "muted" if "──" in line else "plain" if line.startswith(" ") else "title"
    y += LINE_HEIGHT if kind != "title" else LINE_HEIGHT + 8
    delay = 0.5 + (SECONDS - 0.5) * index / len(lines)
    drawn.append(f'<text class="later {kind}" style="animation-delay:{delay:.1f}s" x="{LEFT}" y="{y}" '
                 f'xml:space="preserve">{html.escape(line)}</text>')
height = y + 24
dots = "".join(f'<circle class="bar" cx="{x}" cy="22" r="6"/>' for x in (28, 48, 68))
picture = pathlib.Path(__file__).resolve().parent.parent / "Documentation" / "demo.svg"
picture.write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">\n'
    f"<title>{COMMAND}, recorded</title>\n<style>{STYLE}</style>\n"
    f'<rect class="page" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>\n{dots}\n'
    + "\n".join(drawn) + "\n</svg>\n")
