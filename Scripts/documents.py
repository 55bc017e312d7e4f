#!/usr/bin/env python3
"""Copies code into the documents, between marks: snippets of Snippets/ into README.md, files of Examples/ into the
articles. --check only looks for differences, for files that ARCHITECTURE.md names but that do not exist, and for such tests
in CONTRIBUTING.md.

--compile DIR makes the documentation of the libraries with DocC in DIR, from a debug build; warnings are errors."""

import concurrent.futures
import glob
import json
import os
import pathlib
import re
import subprocess
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


def update(only_checks):
    outdated = []
    for document in documents:
        text = document.read_text()
        updated = re.sub(r"<!-- (snippet|file): (\S+) -->.*?<!-- end -->", replace, text, flags=re.S)
        if updated != text:
            outdated.append(str(document.relative_to(root)))
            if not only_checks:
                document.write_text(updated)
    if only_checks and outdated:
        sys.exit(f"{', '.join(outdated)}: differs from Snippets/ or Examples/; run Scripts/documents.py")


def check_walks():
    """Fails if ARCHITECTURE.md lists a file of a call that does not exist, or counts the files of a walk wrongly."""
    text = (root / "ARCHITECTURE.md").read_text()
    names = {path.stem for path in root.glob("Sources/*/**/*.swift")}
    walks = text.split("**Walks**")[1].split("\n## ")[0].split("\n- ")[1:]
    rows = text.split("## A `set` in")[1].split("\n\n**`keys`")[0]
    listed = [re.findall(r"[A-Z]\w+(?:\+\w+)?", walk.partition(":")[2]) for walk in walks]
    listed.append([path.split("/")[-1] for path in re.findall(r"`((?:\w+/)+\w+(?:\+\w+)?)`", rows)])
    missing = sorted({name for walk in listed for name in walk} - names - {"ForgeCoding"})
    if missing:
        sys.exit(f"ARCHITECTURE.md: no file is named {', '.join(missing)}")
    for walk, files in zip(walks, listed):
        count = int(re.search(r", (\d+)", walk)[1])
        if "from " not in walk and len(files) != count:
            sys.exit(f"ARCHITECTURE.md: {len(files)} files are listed, not {count}: {walk.split(':')[0]}")


def check_tests():
    """Fails if CONTRIBUTING.md names a test that does not exist."""
    tests, suite = set(), None
    for file in root.glob("Tests/**/*.swift"):
        for line in file.read_text().splitlines():
            if found := re.search(r"^(?:@.*)?(?:final )?(?:struct|class|extension) (\w+)|^@Suite.*\bstruct (\w+)", line):
                suite = found[1] or found[2]
            elif found := re.match(r"    func (\w+)", line):
                tests.add(f"{suite}.{found[1]}")
    text = (root / "CONTRIBUTING.md").read_text().split("## Where parts meet")[1].split("\n## ")[0]
    if missing := sorted(set(re.findall(r"`(\w+Tests\.\w+)`", text)) - tests):
        sys.exit(f"CONTRIBUTING.md: there is no test {', '.join(missing)}")


def snippet_symbol(file):
    """A snippet as a symbol of the graph that DocC's `@Snippet` looks it up in."""
    lines, slices, part, showing = [], {}, None, True
    source = file.read_text().splitlines()
    while source and source[0].startswith("//") and "snippet." not in source[0]:
        source.pop(0)
    for line in source + ["// snippet.end"]:
        mark = re.fullmatch(r"// snippet\.([\w.-]+)", line.strip())
        if not mark:
            if showing and (lines or line.strip()):
                lines.append(line)
        elif mark[1] in ("hide", "show"):
            showing = mark[1] == "show"
        elif part:
            slices[part[0]] = [part[1], len(lines)]
            part = None
        if mark and mark[1] not in ("hide", "show", "end"):
            part = (mark[1], len(lines))
    return {
        "accessLevel": "public", "isVirtual": True, "pathComponents": ["Snippets", file.stem],
        "identifier": {"precise": f"$snippet__ForgeStorage.{file.stem}", "interfaceLanguage": "swift"},
        "kind": {"identifier": "swift.snippet", "displayName": "Snippet"}, "names": {"title": file.stem},
        "docComment": {"lines": []}, "snippet": {"language": "swift", "lines": lines, "slices": slices},
    }


def compile_documentation(directory):
    products = root / ".build/debug"
    snippets = pathlib.Path(directory, "snippets")
    snippets.mkdir(parents=True)
    pathlib.Path(snippets, "ForgeStorage-snippets.symbols.json").write_text(json.dumps({
        "metadata": {"formatVersion": {"major": 0, "minor": 1, "patch": 0}, "generator": "documents.py"},
        "module": {"name": "ForgeStorage", "platform": {}, "isVirtual": True}, "relationships": [],
        "symbols": [snippet_symbol(file) for file in sorted((root / "Snippets").glob("*.swift"))]}))
    target = json.loads(subprocess.run(
        ["swiftc", "-print-target-info"], check=True, capture_output=True, text=True).stdout)
    maps = glob.glob(f"{root}/.build/checkouts/*/Sources/**/module.modulemap", recursive=True)
    maps += glob.glob(f"{products}/C*.build/module.modulemap")
    options = ["-I", f"{products}/Modules", "-target", target["target"]["triple"]]
    options += [argument for path in target["paths"]["runtimeLibraryImportPaths"] for argument in ("-I", path)]
    options += [argument for path in maps for argument in ("-Xcc", f"-fmodule-map-file={path}")]

    def make(library):
        graphs = pathlib.Path(directory, library)
        graphs.mkdir()
        subprocess.run([
            "swift-symbolgraph-extract", "-module-name", library, "-minimum-access-level", "public",
            "-emit-extension-block-symbols", "-output-dir", graphs, *options], check=True)
        os.link(snippets / "ForgeStorage-snippets.symbols.json", graphs / "ForgeStorage-snippets.symbols.json")
        catalog = root / f"Sources/{library}/{library}.docc"
        return library, subprocess.run([
            "docc", "convert", *([catalog] if catalog.exists() else []), "--warnings-as-errors",
            "--additional-symbol-graph-dir", graphs, "--fallback-display-name", library,
            "--fallback-bundle-identifier", library, "--output-path", f"{directory}/{library}.doccarchive"],
            capture_output=True, text=True)

    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for library, result in pool.map(make, libraries):
            print(f"documents: {library}: {'compiled' if result.returncode == 0 else result.stdout + result.stderr}")
            failed = failed or result.returncode != 0
    if failed:
        sys.exit(1)


libraries = [
    "ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", "ForgeStorage", "ForgeEtcd", "ForgeS3",
    "ForgeStorageTesting", "ForgeCrashTesting", "ForgeTestTraits", "ForgeInspector",
]
if "--compile" in sys.argv:
    compile_documentation(sys.argv[sys.argv.index("--compile") + 1])
else:
    update("--check" in sys.argv)
    check_walks()
    check_tests()
