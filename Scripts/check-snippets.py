#!/usr/bin/env python3
"""Type-checks the Swift code that the project prints in three contexts: at the top level of a file, in an asynchronous function
and, unless it awaits something, in a synchronous one. Lists the fences that are not compiled. The package must have been built;
its modules are used. printed_code.py describes how pages become programs.

    Scripts/check-snippets.py [--swiftui MODULES] [FILE...]

--swiftui checks the programs that import SwiftUI, which are left out otherwise, with the modules in the directory MODULES.
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from printed_code import Context, Fragment, complete, doc_comments, page, step

root = pathlib.Path(__file__).resolve().parent.parent
os.chdir(root)
arguments = argparse.ArgumentParser()
arguments.add_argument("--swiftui", metavar="MODULES")
arguments.add_argument("files", nargs="*")
options = arguments.parse_args()

products = subprocess.run(
    ["swift", "build", "--show-bin-path"], check=True, capture_output=True, text=True).stdout.strip()
maps = glob.glob(".build/checkouts/*/Sources/**/module.modulemap", recursive=True)
maps += glob.glob(f"{products}/C*.build/module.modulemap") + glob.glob("Sources/CForge*/include/module.modulemap")
resources = json.loads(subprocess.run(
    ["swiftc", "-print-target-info"], check=True, capture_output=True, text=True).stdout)["paths"]["runtimeResourcePath"]
modules = ([options.swiftui] if options.swiftui else []) + [f"{products}/Modules", f"{resources}/pm/ManifestAPI"]
command = ["swiftc", "-emit-sil", "-o", "/dev/null", "-swift-version", "6", "-diagnostic-style", "llvm"]
command += ["-package-description-version", "6.2"]
command += [argument for path in modules for argument in ("-I", path)]
command += [argument for path in maps for argument in ("-Xcc", f"-fmodule-map-file={path}")]

# What a reader does with a result is not printed.
expected_warning = re.compile(r"never used|is unused|never mutated|never read")


def programs_of(file):
    target = file.split("/")[1] if file.startswith("Sources/") else "ForgeStorage"
    imports = ["Foundation", target]
    if file.endswith(".md"):
        return page(file, imports)
    if ".docc/" in file:
        return [step(file)], []
    if not file.startswith("Sources/"):
        return [complete(file)], []
    shared = f"Tests/PrintedCode/{target}.swift"
    lines = pathlib.Path(shared).read_text().split("\n") if os.path.exists(shared) else []
    return doc_comments(file, imports, [Fragment(shared, 1, lines, is_hidden=True)] if lines else [])


def complaints(source, is_library):
    """What the compiler says about a file."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "program.swift" if is_library else "main.swift")
        file.write_text(source)
        parse = ["-parse-as-library"] if is_library else []
        result = subprocess.run(command + parse + [str(file)], capture_output=True, text=True)
    output = result.stdout + result.stderr
    messages = [line for line in output.splitlines() if re.search(r"(error|warning|note): ", line)]
    messages = [line for line in messages if not expected_warning.search(line)]
    return messages or ([] if result.returncode == 0 else [output])


def check(batch):
    """The messages of the programs of a batch that do not compile: apart only if they do not together."""
    if len(batch) > 1 and not complaints(Context.joined([context for _, context in batch]), True):
        return []
    found = [(program, context, complaints(context.source(), bool(context.function))) for program, context in batch]
    return [
        "\n".join([f"check-snippets: {program.name}, {context.name}:"] + messages)
        for program, context, messages in found if messages]


def batches(contexts, size=8):
    """Contexts that are compiled in one call of the compiler."""
    groups = collections.defaultdict(list)
    for number, (program, context) in enumerate(contexts):
        groups[context.joinable or number].append((program, context))
    return [group[start:start + size] for group in groups.values() for start in range(0, len(group), size)]


files = options.files or sorted(
    glob.glob("*.md") + glob.glob("Tests/PrintedCode/*.md") + glob.glob("Snippets/*.swift")
    + glob.glob("Sources/*/*.docc/**/*.md", recursive=True) + glob.glob("Sources/**/*.swift", recursive=True))
programs, others = [], []
for file in files:
    found, exempt = programs_of(file)
    programs += [program for program in found if program.imports_swiftui == bool(options.swiftui)]
    others += exempt + [f"{program.name}: SwiftUI, see check-apple.py" for program in found if program.imports_swiftui]
if not programs:
    sys.exit("check-snippets: there is no printed code")

contexts = [(program, context) for program in programs for context in program.contexts()]
total, failed = collections.Counter(), 0
for program, context in contexts:
    total[context.name] += context.shown
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for failures in pool.map(check, batches(contexts)):
        failed += len(failures)
        for failure in failures:
            print(failure, file=sys.stderr)

if not options.swiftui:
    languages = collections.Counter(other for other in others if ":" not in other)
    for other in others:
        if ":" in other:
            print(f"check-snippets: not compiled here: {other}")
    print("check-snippets: fences in other languages:", ", ".join(f"{languages[name]} {name}" for name in languages))
print(f"check-snippets: {len(programs)} programs; fragments:", ", ".join(f"{total[name]} {name}" for name in total))
if failed:
    sys.exit(f"check-snippets: {failed} failures")
