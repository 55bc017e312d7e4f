#!/usr/bin/env python3
"""Type-checks every printed program of Snippets/ in three contexts: at the top level of a file, in an asynchronous function
and, unless it awaits something, in a synchronous one. The package must have been built; its modules are used.

    Scripts/check-snippets.py
"""

import glob
import os
import pathlib
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
os.chdir(root)
products = subprocess.run(
    ["swift", "build", "--show-bin-path"], check=True, capture_output=True, text=True).stdout.strip()
maps = glob.glob(".build/checkouts/swift-system/Sources/**/module.modulemap", recursive=True)
maps += glob.glob(f"{products}/CForge*.build/module.modulemap") + glob.glob("Sources/CForge*/include/module.modulemap")


def contexts(text):
    """The name and the source of each context."""
    lines = text.splitlines()
    imports = "\n".join(line for line in lines if line.startswith("import "))
    body = "\n".join("    " + line for line in lines if not line.startswith("import "))
    yield "top level", text
    if "\nextension " in text:
        return  # An extension stands at the top level only.
    yield "asynchronous", f"{imports}\nfunc program() async throws {{\n{body}\n}}\n"
    if "await " not in text:
        yield "synchronous", f"{imports}\nfunc program() throws {{\n{body}\n}}\n"


failed = 0
snippets = sorted(pathlib.Path("Snippets").glob("*.swift"))
for snippet in snippets:
    for name, source in contexts(snippet.read_text()):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "main.swift")
            file.write_text(source)
            command = ["swiftc", "-emit-sil", "-o", "/dev/null", "-swift-version", "6", "-I", f"{products}/Modules", str(file)]
            command += [argument for path in maps for argument in ("-Xcc", f"-fmodule-map-file={path}")]
            result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            failed += 1
            print(f"check-snippets: {snippet}, {name}:\n{result.stdout}{result.stderr}", file=sys.stderr)
        else:
            print(f"check-snippets: {snippet}, {name}")
if not snippets:
    sys.exit("check-snippets: there are no snippets")
sys.exit(1 if failed else 0)
