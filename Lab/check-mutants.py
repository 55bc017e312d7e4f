#!/usr/bin/env python3
"""Changes single lines of shipped code, one at a time, and asks whether the tests notice.

    Lab/check-mutants.py CLONE [--paths PREFIX...] [--count N] [--seed N] [--suites REGEX] [--workers N]

CLONE is a clone of its own, whose files are changed. All changes, the mutants, are compiled into one test binary as
switches: FORGE_MUTANT=N makes mutant N effective. Each suite is run once to learn which mutants it reaches; each mutant
is then played with the suites that reach it, the quickest first, until one fails that passes without it.

Prints a line for each mutant that is not noticed, and how many are. One is a missing test, a line without effect or an
equivalent program: say which. Mutants that do not compile are not counted. --suites narrows the suites, such as to the
published checks: only mutants that these reach are counted then.
"""

import argparse
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

LIBRARIES = ["ForgeCoding", "ForgeCrypt", "ForgeFileStore", "ForgeFileSystem", "ForgeKVStore", "ForgeStorage"]
SWAPS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-",
}
PRECEDENCE = {"&&": "LogicalConjunctionPrecedence", "||": "LogicalDisjunctionPrecedence", "+": "AdditionPrecedence"}
REMOVALS = {
    "statement removed": r"(try )?[a-z][A-Za-z0-9_.]*\([^{]*\)$",
    "assignment removed": r"[a-z][A-Za-z0-9_.]* (\+|-)?= [^{]*$",
    "defer removed": r"defer \{ .* \}$",
    "guard removed": r"guard (?!.*\b(let|case|var)\b).* else \{ (throw|return|break|continue).*\}$",
}
# No code under test, or not compiled on Linux.
LEFT_ALONE = re.compile(r"Darwin|\.docc/|Unavailable")
NO_MUTANTS = ("//", "import", "public import", "package import", "@", "#", "case ", "precondition", "assert", "fatalError")

SWITCHES = """
import Foundation

let activeMutant = ProcessInfo.processInfo.environment["FORGE_MUTANT"].flatMap { Int($0) } ?? -1
let reachDirectory = ProcessInfo.processInfo.environment["FORGE_REACH"]
nonisolated(unsafe) let reached = calloc(4096, 1)!.assumingMemoryBound(to: Bool.self)

@usableFromInline @inline(never) func mutant(_ number: Int) -> Bool {
    if let reachDirectory, !reached[number] {
        reached[number] = true
        let saved = errno
        close(open("\\(reachDirectory)/\\(number)", O_CREAT | O_WRONLY, 0o666))
        errno = saved
    }
    return activeMutant == number
}
@usableFromInline func mutant(_ number: Int, _ value: Bool) -> Bool { mutant(number) != value }
@usableFromInline func mutant<T: ExpressibleByIntegerLiteral>(_ number: Int, _ value: T, _ other: T) -> T {
    mutant(number) ? other : value
}
"""


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, errors="replace", **options)


def mutants(path):
    """Every change of one line of a file, as its number, the kind, and where it is in the line."""
    conditions = 0
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n")):
        text = line.strip()
        conditions += text.startswith("#if") - text.startswith("#endif")
        if conditions > 0 or not text or text.startswith(NO_MUTANTS) or '"""' in text:
            continue
        code = re.sub(r'"(?:[^"\\]|\\.)*"', lambda quoted: "\0" * len(quoted[0]), line.split(" //")[0])
        for old in SWAPS:
            if "<" in old and re.search(r"\b(func|struct|class|init)\b", code):
                continue
            for match in re.finditer(re.escape(f" {old} "), code):
                yield number, old, match.start() + 1
        for pattern in (r"\btrue\b", r"\bfalse\b", r"(?<= [+-] )1\b", r"(?<=\bif )!", r"(?<=guard )!"):
            for match in re.finditer(pattern, code):
                yield number, match[0], match.start()
        for kind, pattern in REMOVALS.items():
            if re.match(pattern, text) and not text.startswith(("super.init", "self.init", "return", "print")):
                yield number, kind, 0


def switched(line, kind, place, mutant):
    """A line in which a mutant is a switch, and the declaration that it needs."""
    indent, text = re.match(r"(\s*)(.*)", line).groups()
    if kind == "defer removed":
        return f"{indent}defer {{ if !mutant({mutant}) {{ {text[8:-2]} }} }}", ""
    if kind.endswith("removed"):
        return f"{indent}if !mutant({mutant}) {{ {text} }}", ""
    if kind in ("true", "false"):
        return line[:place] + f"mutant({mutant}, {kind})" + line[place + len(kind):], ""
    if kind == "1":
        return line[:place] + f"mutant({mutant}, 1, 2)" + line[place + 1:], ""
    digits = "".join("∙∘"[int(digit)] for digit in f"{mutant:b}")
    if kind == "!":
        name = "⊝" + digits
        function = f"prefix func {name} (a: Bool) -> Bool {{ mutant({mutant}) ? a : !a }}"
        return line[:place] + name + line[place + 1:], f"prefix operator {name}\n@usableFromInline {function}\n"
    name, other = "⊛" + digits, SWAPS[kind]
    changed = f"mutant({mutant}) ? a {other} b : a {kind} b"
    if kind in ("&&", "||"):
        operand = "@autoclosure () throws -> Bool"
        changed = f"mutant({mutant}) ? try a {other} b() : try a {kind} b()"
        functions = [f"func {name} (a: Bool, b: {operand}) rethrows -> Bool {{ {changed} }}"]
    elif kind == "+":
        functions = [
            f"func {name} <T: AdditiveArithmetic>(a: T, b: T) -> T {{ {changed} }}",
            f"func {name} <T: Strideable>(a: T, b: T.Stride) -> T {{ a.advanced(by: mutant({mutant}) ? -b : b) }}",
            f"func {name} <T: InstantProtocol>(a: T, b: T.Duration) -> T "
            f"{{ a.advanced(by: mutant({mutant}) ? .zero - b : b) }}",
        ]
    elif kind in ("==", "!="):
        functions = [
            f"func {name} <T: Equatable>(a: T, b: T) -> Bool {{ {changed} }}",
            f"func {name} <T>(a: T?, b: _OptionalNilComparisonType) -> Bool {{ {changed} }}",
        ]
    else:
        functions = [
            f"func {name} <T: Comparable>(a: T, b: T) -> Bool {{ {changed} }}",
            f"func {name} <T: BinaryInteger, U: BinaryInteger>(a: T, b: U) -> Bool {{ {changed} }}",
        ]
    declared = f"infix operator {name}: {PRECEDENCE.get(kind, 'ComparisonPrecedence')}\n"
    for index, function in enumerate(functions):
        declared += ("@_disfavoredOverload " if index else "") + f"@usableFromInline {function}\n"
    return line[:place] + name + line[place + len(kind):], declared


def sample(given):
    """Mutants of lines that differ, drawn at random."""
    files = run("git", "ls-files", "Sources").stdout.split()
    files = [f for f in files if f.endswith(".swift") and f.startswith(tuple(given.paths)) and not LEFT_ALONE.search(f)]
    pool = [(file, *change) for file in files for change in mutants(file)]
    print(len(pool), "possible mutants in", len(files), "files", flush=True)
    drawn, lines = [], set()
    generator = random.Random(given.seed)
    # A third more: some do not compile.
    while pool and len(drawn) < given.count * 4 // 3:
        file, number, kind, place = pool.pop(generator.randrange(len(pool)))
        if (file, number) not in lines:
            lines.add((file, number))
            drawn.append((len(drawn), file, number, kind, place))
    return drawn


def apply(drawn):
    """Puts the mutants into the files of the clone."""
    run("git", "checkout", "-q", "Sources")
    declarations = {}
    for mutant, file, number, kind, place in drawn:
        lines = open(file, encoding="utf-8").read().split("\n")
        lines[number], declared = switched(lines[number], kind, place, mutant)
        open(file, "w", encoding="utf-8").write("\n".join(lines))
        module = file.split("/")[1]
        declarations[module] = declarations.get(module, "") + declared
    for module, declared in declarations.items():
        open(f"Sources/{module}/Switches.swift", "w", encoding="utf-8").write(SWITCHES + declared)


def build(drawn):
    """Builds the tests with all mutants that compile, and returns these."""
    while True:
        apply(drawn)
        built = run("swift", "build", "--build-tests")
        if built.returncode == 0:
            return drawn
        left_out = set()
        for file, line in re.findall(r"(Sources/[^:\s]+\.swift):(\d+):\d+: error:", built.stdout + built.stderr):
            above = [m for m in drawn if m[1] == file and m[2] <= int(line)]
            if above:
                left_out.add(min(above, key=lambda m: abs(m[2] + 1 - int(line)))[0])
        if not left_out:
            sys.exit("the clone does not build:\n" + (built.stdout + built.stderr)[-2000:])
        drawn = [m for m in drawn if m[0] not in left_out]


def play(suite, patience, **variables):
    """Runs a suite. Returns its status, 124 if it hangs, and its duration."""
    scratch = tempfile.mkdtemp()
    os.chmod(scratch, 0o777)  # Tests run commands as other users.
    environment = dict(os.environ, TMPDIR=scratch, SWT_SWIFT_ERROR_BACKTRACING_ENABLED="0", **variables)
    words = [BINARY, "--testing-library", "swift-testing", "--filter", f"^{re.escape(suite)}(/|$)"]
    begun = time.monotonic()
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        status = process.wait(patience)
    except subprocess.TimeoutExpired:
        status = 124
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    shutil.rmtree(scratch, ignore_errors=True)
    return status, time.monotonic() - begun


def concurrently(items, workers, body):
    waiting = queue.SimpleQueue()
    for item in items:
        waiting.put(item)

    def work():
        while True:
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            body(item)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone")
    parser.add_argument("--paths", nargs="*", default=[f"Sources/{name}/" for name in LIBRARIES])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suites", default="")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    os.chdir(given.clone)
    if run("git", "status", "--porcelain", "--untracked-files=no").stdout.strip():
        sys.exit("the clone has changes of its own")
    drawn = build(sample(given))
    print(len(drawn), "of them drawn and compiled", flush=True)
    listed = run(BINARY, "--testing-library", "swift-testing", "--list-tests").stdout
    suites = sorted(set(re.findall(r"^(\w+\.\w+)/", listed, re.MULTILINE)))
    suites = [suite for suite in suites if re.search(given.suites, suite)]
    durations, reaching = {}, {}

    def learn(suite):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o777)
            status, duration = play(suite, 600, FORGE_REACH=directory)
            if status != 0:
                print("fails without a mutant, and is left out:", suite, flush=True)
                return
            durations[suite] = duration
            for number in os.listdir(directory):
                reaching.setdefault(int(number), []).append(suite)

    concurrently(suites, given.workers, learn)
    if given.suites:
        drawn = [m for m in drawn if m[0] in reaching]
    noticed = []

    def judge(entry):
        mutant, file, number, kind, place = entry
        for suite in sorted(reaching.get(mutant, []), key=durations.get):
            patience = 60 + 6 * durations[suite]
            if play(suite, patience, FORGE_MUTANT=str(mutant))[0] != 0 and play(suite, patience)[0] == 0:
                noticed.append(mutant)
                return
        line = run("git", "show", f"HEAD:{file}").stdout.split("\n")[number].strip()
        told = {"at": f"{file}:{number + 1}", "what": kind, "line": line, "suites": len(reaching.get(mutant, []))}
        print(json.dumps(told, ensure_ascii=False), flush=True)

    concurrently(drawn[:given.count], given.workers, judge)
    print(len(noticed), "of", len(drawn[:given.count]), "mutants noticed")


BINARY = ".build/debug/ForgeStoragePackageTests.xctest"
main()
