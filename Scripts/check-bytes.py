#!/usr/bin/env python3
"""Fails if keys, names or paths may be split or compared by Character, or parsed by Foundation, in what ships.

Swift's `split`, `hasPrefix`, `hasSuffix`, `dropLast` and `contains` of a String work on Characters, which can join a
slash and its neighbours. Equal Strings can differ in their bytes: `==`, a Set and a Dictionary take two names for one,
and a sort leaves their order open. Foundation's paths expand `~`, resolve `..` in the text and lose bytes that are not
UTF-8. EscapedName.swift and POSIXPath.swift in Sources/ForgeFileSystem have the operations on bytes; `URL(POSIXPath)`
makes the URL of a path. Texts that no user names may use the others; each such line is listed in Scripts/check-bytes.txt
with its reason:

    FILE | PART OF THE LINE | REASON

Usage: Scripts/check-bytes.py [DIRECTORY]    The directory that contains Sources; by default the package.
"""

import pathlib
import re
import sys

RINGS = re.compile(r"^(ForgeStorageTesting|ForgeCrashTesting|ForgeTestTraits|ForgeInspector/Page)\b")
FORBIDDEN = re.compile(
    r"(?<!utf8)\.has(Prefix|Suffix)\(|\.split\((separator: \"|whereSeparator: \\\.)|components\(separatedBy"
    r"|String\([\w.$]+\.drop(Last|First)\(|(?<!utf8)(?<!bytes)\.contains\(\"|\bSet<String>"
    r"|\bURL\((filePath|fileURLWithPath):|\bFilePath\((\w+\.)*(path|absoluteString)\b|\bas NSString\)\.|NSString\([^)]*\)\."
    r"|tilde(In)?Path|TildeInPath|\bstandardized(FileURL)?\b|\bstandardize\(|resolv(e|ing)SymlinksInPath"
    r"|\bjson\(\) [=!]=|\$0\.(key|name) [=!]=|(?<![\w.$])[a-z]\w*\.(key|name) [=!]= (?!nil\b|\.)|[=!]= [a-z]\w*\.(key|name)\b"
    r"|\[String: (?!Any\b|String\b|Data\b|\[UInt8\])|\bDictionary(<String\b|\(uniqueKeysWith)|\.(keys|names)(\(\))?\.sorted\(\)"
)
# A line for each form: the expression has to find every one.
EXAMPLES = (
    'key.hasPrefix("a")', 'key.hasSuffix("a")', 'key.split(separator: "/")', "key.split(whereSeparator: \\.isBlank)",
    'key.components(separatedBy: "/")', "String(key.dropLast())", "String($0.key.dropFirst())", 'key.contains("/")',
    "var names: Set<String> = []", "URL(filePath: key)", "URL(fileURLWithPath: key)", "FilePath(url.path)",
    "(key as NSString).lastPathComponent", "NSString(string: key).pathExtension", "key.expandingTildeInPath",
    "url.standardizedFileURL", "url.standardize()", "url.resolvingSymlinksInPath()", "try a.json() == b.json()",
    "files.first { $0.key == key }", "caches.removeAll { $0.name != name }", "let stores = Mutex<[String: Store]>([:])",
    "if file.key == key", "guard entry.name != other", "where key == file.key", "name != entry.name",
    "var stores: [String: Store] = [:]", "Dictionary<String, Int>()", "Dictionary(uniqueKeysWithValues: pairs)",
    "try store.keys().sorted()", "files.keys.sorted()",
)


def code(line):
    """The line without its comment."""
    return re.sub(r"(^|\s)//.*", "", line)


def main():
    for example in EXAMPLES:
        if not FORBIDDEN.search(example):
            sys.exit(f"check-bytes.py does not find {example}")
    script = pathlib.Path(__file__)
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else script.resolve().parent.parent
    allowed = []
    for number, line in enumerate((script.with_suffix(".txt")).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts):
            sys.exit(f"check-bytes.txt:{number}: not FILE | PART OF THE LINE | REASON")
        allowed.append([*parts[:2], False])
    failures = []
    for path in sorted((root / "Sources").rglob("*.swift")):
        name = path.relative_to(root / "Sources").as_posix()
        if RINGS.match(name) or ".docc/" in name:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not FORBIDDEN.search(code(line)):
                continue
            entries = [entry for entry in allowed if entry[0] == name and entry[1] in line]
            for entry in entries:
                entry[2] = True
            if not entries:
                failures.append(f"Sources/{name}:{number}: {line.strip()}")
    for name, part, used in allowed:
        if not used:
            failures.append(f"check-bytes.txt: no line of {name} needs the entry {part}")
    if failures:
        print("Use the operations of EscapedName.swift and POSIXPath.swift on names and paths, or list the line:", file=sys.stderr)
        print("\n".join(failures), file=sys.stderr)
        sys.exit(1)
    print("no key, name or path is split or compared by Character, or parsed by Foundation")


main()
