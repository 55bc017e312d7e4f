#!/usr/bin/env python3
"""Copies the code in Snippets/ into README.md, between its snippet marks; --check only looks for differences."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
readme = root / "README.md"


def shown(name):
    """The lines of a snippet that are to be shown, its first comment left out."""
    lines, showing = [], False
    for line in (root / "Snippets" / f"{name}.swift").read_text().splitlines():
        mark = line.strip()
        if mark in ("// snippet.hide", "// snippet.show"):
            showing = mark == "// snippet.show"
        elif showing:
            lines.append(line)
    return "\n".join(lines).strip()


def replace(match):
    return f"<!-- snippet: {match[1]} -->\n```swift\n{shown(match[1])}\n```\n<!-- end -->"


text = readme.read_text()
updated = re.sub(r"<!-- snippet: (\w+) -->.*?<!-- end -->", replace, text, flags=re.S)
if "--check" in sys.argv:
    sys.exit(0 if updated == text else "README.md differs from Snippets/; run Scripts/update-readme.py")
readme.write_text(updated)
