#!/usr/bin/env python3
"""Copies code into the documents, between marks: snippets of Snippets/ into README.md, files of Examples/ into the
articles; --check only looks for differences."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
documents = [root / "README.md", *sorted(root.glob("Sources/*/*.docc/*.md"))]


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
    kind, name = match[1], match[2]
    code = shown(name) if kind == "snippet" else (root / name).read_text().strip()
    return f"<!-- {kind}: {name} -->\n```swift\n{code}\n```\n<!-- end -->"


outdated = []
for document in documents:
    text = document.read_text()
    updated = re.sub(r"<!-- (snippet|file): (\S+) -->.*?<!-- end -->", replace, text, flags=re.S)
    if updated != text:
        outdated.append(str(document.relative_to(root)))
        if "--check" not in sys.argv:
            document.write_text(updated)
if "--check" in sys.argv and outdated:
    sys.exit(f"{', '.join(outdated)}: differs from Snippets/ or Examples/; run Scripts/update-readme.py")
