#!/usr/bin/env python3
"""Checks on Linux, without Apple's SDK, the code for Apple's platforms, in five steps:

1. The stub modules in Tests/AppleStubs are compared with Apple's headers and metadata (apple_headers.py).
2. Every target that ships, and every test target, is type-checked for macOS: each `#if` is evaluated as there, and Apple's
   modules are the stubs. Files that differ on another platform are checked for it too. A branch that neither these checks nor
   the build on Linux compile is an error.
3. The C files are compiled for each platform.
4. What ships holds no constant or shift that the 32-bit `Int` of watches cannot hold.
5. Each target's privacy manifest is compared with the "required reason" APIs that its sources call, as Apple lists them:
   https://developer.apple.com/documentation/bundleresources/describing-use-of-required-reason-api

    Scripts/check-apple.py [--libraries] [--plant FILE OLD NEW]...

The package must have been built with FORGE_LAB=1: the modules of its dependencies are used. --libraries leaves out the tests.
--plant replaces text in the copies that are checked, to see whether the check finds it.
"""

import argparse
import concurrent.futures
import glob
import os
import plistlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import apple_headers

root = Path(__file__).resolve().parent.parent
os.chdir(root)
arguments = argparse.ArgumentParser()
arguments.add_argument("--libraries", action="store_true")
arguments.add_argument("--plant", nargs=3, action="append", default=[], metavar=("FILE", "OLD", "NEW"))
arguments.add_argument("--headers", type=Path, help="a directory with the unpacked packages, to be filled if it is empty")
options = arguments.parse_args()

PLATFORMS = {
    "macOS": "arm64-apple-macos15", "iOS": "arm64-apple-ios18", "tvOS": "arm64-apple-tvos18",
    "watchOS": "arm64_32-apple-watchos11", "visionOS": "arm64-apple-xros2",
}
STUBS = ["Darwin", "DarwinByFoundation", "Security", "SwiftUI", "CoreGraphics", "ImageIO"]
LIBRARIES = ["ForgeFileSystem", "ForgeCoding", "ForgeKVStore", "ForgeFileStore", "ForgeCrypt", "ForgeStorage", "ForgeHTTP",
             "ForgeEtcd", "ForgeS3", "ForgeStorageTesting", "ForgeCrashTesting", "ForgeTestTraits", "ForgeInspector",
             "ForgeCommands", "forge"]
FEATURES = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]
TRAITS = {"Etcd", "S3", "Inspector"}
LINUX_ONLY = {"Glibc", "FoundationNetworking"}

problems = []


def problem(text):
    print(f"check-apple: {text}", file=sys.stderr, flush=True)
    problems.append(text)


# MARK: Conditions

def is_true(condition: str, platform: str) -> bool:
    """Evaluates a condition of `#if` as on a platform."""
    system = platform.split()[0]

    def atom(match):
        kind, name = match[1], match[2]
        if kind == "os":
            return str(name == system)
        if kind == "canImport":
            if name in STUBS:
                return str(system != "Linux")
            return str(name not in {"Musl"} and (name not in LINUX_ONLY or system == "Linux"))
        if kind == "arch":
            return str(name == ("x86_64" if system == "Linux" else "arm64"))
        if kind in ("swift", "compiler"):
            return "True"
        if kind == "targetEnvironment":
            return "False"
        raise SystemExit(f"check-apple: unknown condition {match[0]}")

    text = re.sub(r"(\w+)\(([^)]*)\)", atom, condition)
    traits = set() if platform == "Linux without traits" else TRAITS
    text = re.sub(r"\b(?!True\b|False\b)(\w+)\b", lambda m: str(m[1] in traits), text)
    return eval(text.replace("&&", " and ").replace("||", " or ").replace("!", " not "), {})


def evaluate(path: Path, platform: str, branches: dict) -> str:
    """The text of a file as a platform compiles it; notes in `branches` which branches have been compiled."""
    result, stack = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if directive := re.match(r"\s*#(if|elseif|else|endif)\b\s*(.*)", line):
            word, condition = directive[1], directive[2].split("//")[0].strip()
            if word == "if":
                stack.append([False, False, all(s[1] for s in stack), number])
            if word in ("if", "elseif"):
                level = stack[-1]
                level[1] = level[2] and not level[0] and is_true(condition, platform)
                level[0] = level[0] or level[1]
            elif word == "else":
                stack[-1][1] = stack[-1][2] and not stack[-1][0]
            if word == "endif":
                stack.pop()
            else:
                stack[-1][3] = number
            result.append("")
            continue
        isLive = all(s[1] for s in stack)
        if stack and line.strip():
            key = (str(path), stack[-1][3])
            entry = branches.setdefault(key, [False, True])
            entry[0] = entry[0] or isLive
            entry[1] = entry[1] and re.match(r"\s*(public |internal |private )?import \w+$|\s*//", line) is not None
        result.append(line if isLive else "")
    return "\n".join(result) + "\n"


def as_on_apple(text: str) -> str:
    """Adds what Apple's Foundation exports of the C library, and writes toll-free bridging, which only Apple's compilers
    know, as calls of functions of the stubs."""
    exported = "" if "import Darwin" in text else "; import DarwinByFoundation"
    if re.search(r"\bURL(Session|Request)\b", text):
        exported += "; import FoundationNetworking"
    text = re.sub(r"^((?:(?:public|package) )?import Foundation)$", rf"\1{exported}", text, count=1, flags=re.M)
    # A stub cannot add a method to NSObject that a class overrides.
    text = text.replace("override func observeValue(", "func observeValue(")
    if re.search(r"^import (Security|ImageIO)$", text, re.M):
        text = re.sub(r"(\b[\w.]+(?:\([^()]*\))?) as (CF\w+|NSString|String)\b", r"(bridge(\1) as \2)", text)
        text = text.replace("as? [String: Any]", ".map(unbridged)")
    return text


# MARK: Compiling

def run(command, label):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        lines = [l for l in result.stderr.splitlines() if ": error:" in l or ": warning:" in l]
        problem(f"{label}:\n" + "\n".join(sorted(set(lines))[:20] or result.stderr.splitlines()[-5:]))
    return result.returncode == 0


def compiler(output: Path, products: Path):
    maps = glob.glob(".build/checkouts/*/Sources/**/module.modulemap", recursive=True)
    maps += glob.glob(f"{products}/C*.build/module.modulemap") + glob.glob("Sources/CForge*/include/module.modulemap")
    package = re.sub(r"[^a-z0-9_]", "_", root.name.lower())
    command = ["swiftc", "-emit-module", "-wmo", "-swift-version", "6", "-warnings-as-errors", "-enable-testing"]
    command += ["-package-name", package, "-I", output, "-I", products / "Modules", "-diagnostic-style", "llvm"]
    for feature in FEATURES:
        command += ["-enable-upcoming-feature", feature]
    for trait in TRAITS:
        command += ["-D", trait]
    return command + [x for path in maps for x in ("-Xcc", f"-fmodule-map-file={path}")]


def compile_swift_system(stub: Path, work: Path, output: Path):
    """Compiles swift-system with the types that it has on Apple's platforms: modes of 16 bits."""
    copy = work / "SystemPackage"
    shutil.copytree(".build/checkouts/swift-system/Sources/System", copy)
    for path in [copy / "Internals/CInterop.swift", copy / "Internals/Constants.swift"]:
        path.chmod(0o644)
        path.write_text(re.sub(r"(: mode_t \{ )(.*)( \})", r"\1mode_t(truncatingIfNeeded: \2)\3", path.read_text()))
    map = ".build/checkouts/swift-system/Sources/CSystem/include/module.modulemap"
    run(["swiftc", "-emit-module", "-wmo", "-swift-version", "5", "-suppress-warnings", "-parse-as-library", "-module-name",
         "SystemPackage", "-package-name", "swift_system", "-Xcc", f"-fmodule-map-file={map}", "-D", "SYSTEM_PACKAGE",
         "-emit-module-path", output / "SystemPackage.swiftmodule", stub, *copy.glob("**/*.swift")], "swift-system")


def compile_stub(command, name, stubs, output):
    run(command + ["-parse-as-library", "-suppress-warnings", "-module-name", name, "-emit-module-path",
                   output / f"{name}.swiftmodule", *sorted((stubs / name).glob("*.swift"))], f"stub {name}")


def check_target(command, folder, staged, output):
    """Type-checks the evaluated copies of a target, and returns where it leaves its module for those that import it."""
    name = Path(folder).name
    files = sorted(staged.glob(f"{folder}/**/*.swift"))
    if not files:
        problem(f"{folder}: there are no files")
    library = [] if any(f.name == "main.swift" for f in files) else ["-parse-as-library"]
    if folder.startswith("Sources/"):
        library.append("-strict-memory-safety")
    if name == "DocumentTests":
        # As in the package's manifest.
        command = [x for x in command if x not in ("6", "-enable-upcoming-feature", *FEATURES)] + ["-swift-version", "5"]
        command.remove("-swift-version")
    run(command + library + ["-module-name", name.replace("-", "_"), "-emit-module-path",
                             output / f"{name.replace('-', '_')}.swiftmodule", *files], folder)
    return output


def main():
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        shutil.copytree("Tests/AppleStubs", work / "stubs")
        folders = [f"Sources/{name}" for name in LIBRARIES] + ["Examples/SettingsApp", "Examples/DeviceChecks"]
        if not options.libraries:
            folders += sorted(str(p) for p in Path("Tests").iterdir() if p.is_dir() and p.name not in ("AppleStubs", "PrintedCode"))
        branches = {}
        for platform in ["Linux", "Linux without traits", *PLATFORMS]:
            for folder in folders:
                for path in Path(folder).glob("**/*.swift"):
                    if ".docc" in str(path):
                        continue
                    text = evaluate(path, platform, branches)
                    if platform in PLATFORMS:
                        copy = work / platform / path
                        copy.parent.mkdir(parents=True, exist_ok=True)
                        copy.write_text(as_on_apple(text))
        # The package manager adds these declarations to targets with resources.
        page = [path.name.replace(".", "_") for path in Path("Sources/ForgeInspector/Page").iterdir()]
        resources = "".join(f"    static let {name}: [UInt8] = []\n" for name in page)
        for platform in PLATFORMS:
            path = work / platform / "Sources/ForgeInspector/PackageResources.swift"
            path.write_text(f"struct PackageResources {{\n{resources}}}\n")
            for folder in folders:
                tests = work / platform / folder
                if any("Bundle.module" in p.read_text() for p in tests.glob("*.swift")):
                    (tests / "Bundle.swift").write_text(
                        "import Foundation\n\nextension Bundle { static var module: Bundle { .main } }\n")
        for file, old, new in options.plant:
            copies = [work / "stubs" / file, *(work / platform / file for platform in PLATFORMS)]
            copies = [c for c in copies if c.exists() and old in c.read_text()]
            if not copies:
                raise SystemExit(f"check-apple: {file} does not contain {old}")
            for copy in copies:
                copy.write_text(copy.read_text().replace(old, new, 1))
        for (path, line), (is_compiled, has_only_imports) in sorted(branches.items()):
            if not is_compiled and not has_only_imports:
                problem(f"{path}:{line}: no check compiles this branch")

        check_privacy()
        headers = options.headers or work / "headers"
        include = headers / "ziglang/lib/libc/include/any-darwin-any"
        if not include.exists():
            include = apple_headers.fetch(headers)
        targets = list(PLATFORMS.values()) + ["x86_64-apple-macos15"]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda target: prove_headers(target, work, include), targets))
        for text in apple_headers.prove_frameworks(work / "stubs", headers, work / "macOS/Sources"):
            problem(text)

        output = work / "modules"
        output.mkdir()
        products = Path(subprocess.run(["swift", "build", "--show-bin-path"], check=True, capture_output=True,
                                       text=True).stdout.strip())
        characters = work / "stubs/Darwin/Characters.swift"
        characters.write_text(f"public typealias CChar1024 = {apple_headers.CHARACTERS}\n")
        command = compiler(output, products)
        stub_command = [x for x in command if x != "-warnings-as-errors"]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            system = pool.submit(compile_swift_system, work / "stubs/SystemPackage/Apple.swift", work, output)
            list(pool.map(lambda name: compile_stub(stub_command, name, work / "stubs", output), STUBS[:-1]))
            system.result()
        # The last one imports the one before it.
        compile_stub(stub_command, STUBS[-1], work / "stubs", output)
        check_folders(command, folders, work, output)
        run(["python3", "Scripts/check-snippets.py", "--swiftui", str(output)], "printed programs with SwiftUI")
    if problems:
        raise SystemExit(f"check-apple: {len(problems)} problems")
    print(f"check-apple: {len(folders)} targets, {len(targets)} platforms of C, {len(branches)} branches")


def prove_headers(target: str, work: Path, include: Path):
    folder = work / f"headers-{target}"
    folder.mkdir()
    for name in ["Darwin", "DarwinByFoundation"]:
        for text in apple_headers.prove_c_library(work / f"stubs/{name}/{name}.swift", include, folder, target):
            problem(f"{name}.swift, {target}: {text}")
    for source in sorted(glob.glob("Sources/CForge*/*.c")):
        result = apple_headers.clang(
            include, target, "-Wall", "-Werror", "-I", str(Path(source).parent / "include"), source)
        if result.returncode:
            problem(f"{source}, {target}:\n{result.stderr}")


def check_folders(command, folders, work, output):
    waiting = []

    def add(folder, check, *rest):
        waiting.append((folder, lambda: check(command, folder, *rest)))

    known = set()
    for platform in PLATFORMS:
        modules = output if platform == "macOS" else work / f"modules-{platform}"
        modules.mkdir(exist_ok=True)
        for folder in folders:
            # Each distinct text of a target once.
            text = (folder, staged_text(work / platform / folder))
            if text[1] and text not in known:
                known.add(text)
                add(folder, check_target, work / platform, modules)
    for folder in folders:
        if folder.startswith("Sources/"):
            add(folder, check_widths, work / "watchOS")

    names = {Path(folder).name for folder, _ in waiting}
    imports = {
        folder: {m for p in (work / "macOS" / folder).glob("**/*.swift")
                 for m in re.findall(r"^\s*(?:@\w+ )*(?:public |private |internal )?import (?:\w+ )?(\w+)", p.read_text(), re.M)}
        & names - {Path(folder).name} for folder in folders}
    done = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {}
        while waiting or running:
            for item in [item for item in waiting if imports[item[0]] <= done]:
                waiting.remove(item)
                running[pool.submit(item[1])] = item[0]
            if not running:
                raise SystemExit(f"check-apple: {[folder for folder, _ in waiting]} import each other")
            for future in concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done:
                folder = running.pop(future)
                if future.result() == output:
                    done.add(Path(folder).name)


def staged_text(folder: Path):
    return tuple((str(path.relative_to(folder)), path.read_text()) for path in sorted(folder.glob("**/*.swift")))


# MARK: 32-bit integers

NUMBER = r"(?:0x[\da-fA-F_]+|0b[01_]+|\d[\d_]*)(?![\w.])"


def wide_constants(line: str) -> dict:
    """The constants and shifts of a line that need more than 31 bits, each at the column whose type decides: its value,
    or for a shift by 32 bits or more, the number that such a shift makes of one."""
    code = re.sub(r"(^|\s)//.*", "", line)
    code = re.sub(r'"(?:\\.|[^"\\])*"', lambda match: " " * len(match[0]), code)
    result = {}

    def number(text):
        return int(text.replace("_", ""), 0 if text[:2] in ("0x", "0b") else 10)

    for match in re.finditer(rf"(?<![\w.]){NUMBER}(?: *(?:\*|&?<<) *{NUMBER})*", code):
        first, *others = re.finditer(rf"(\*|&?<<|^) *({NUMBER})", match[0])
        value = number(first[2])
        for other in others:
            value = value * number(other[2]) if other[1] == "*" else value << min(number(other[2]), 64)
        if value >= 1 << 31:
            result[match.start() + (others[-1].start() if others else 0)] = value
    for match in re.finditer(rf"&?(?:<<|>>)=? *({NUMBER})", code):
        if number(match[1]) >= 32:
            result[match.start()] = 1 << 32
    return {len(code[:column].encode()) + 1: value for column, value in result.items()}


def check_widths(command, folder, staged):
    """Refuses constants and shifts that only a 64-bit `Int` holds: on watches they do not compile, or shift every bit out.
    The compiler states the types, which are often inferred; it is asked about the files that may contain such numbers."""
    files = sorted(staged.glob(f"{folder}/**/*.swift"))
    wide = {(str(path), number, column): value for path in files
            for number, line in enumerate(path.read_text().splitlines(), 1) for column, value in wide_constants(line).items()}
    primary = sorted({path for path, _, _ in wide})
    if not primary:
        return
    options = [x for x in command[1:] if x not in ("-emit-module", "-wmo")]
    inputs = [x for path in primary for x in ("-primary-file", path)] + [f for f in files if str(f) not in primary]
    library = [] if any(f.name == "main.swift" for f in files) else ["-parse-as-library"]
    dump = subprocess.run(["swiftc", "-frontend", "-dump-ast", *options, *library, "-module-name", Path(folder).name, *inputs],
                          capture_output=True, text=True)
    if dump.returncode:
        problem(f"{folder}, types: {dump.stderr[-2000:]}")
    seen, found = set(), set()
    for kind, type, path, line, column in re.findall(
            r"\b(integer_literal_expr|declref_expr) (?:implicit )?type=\"([^\"]*)\" location=(.+?):(\d+):(\d+) ", dump.stdout):
        place = (path, int(line), int(column))
        if place not in wide:
            continue
        seen.add(place)
        type = type if kind == "integer_literal_expr" else (re.search(r"-> \((?:inout )?(\w+), ", type) or [0, ""])[1]
        if type == "Int" or type == "UInt" and wide[place] >= 1 << 32:
            text = Path(path).read_text().splitlines()[place[1] - 1].strip()
            found.add(f"{Path(path).relative_to(staged)}:{line}: a 32-bit {type} cannot hold this: {text}")
    for text in sorted(found):
        problem(text)
    for path, line, column in sorted(wide.keys() - seen):
        problem(f"{Path(path).relative_to(staged)}:{line}:{column}: the compiler states no type")


# MARK: Privacy manifests

def calls(*names):
    return [rf"(?<![\w.]){name}\(" for name in names]


def members(*names):
    return [rf"\.{name}\b" for name in names]


CATEGORIES = {
    "FileTimestamp": calls(
        "stat", "fstat", "fstatat", "lstat", "getattrlist", "getattrlistat", "getattrlistbulk", "fgetattrlist")
    + members(
        "creationDate", "modificationDate", "fileModificationDate", "creationDateKey", "contentModificationDateKey"),
    "DiskSpace": calls("statfs", "statvfs", "fstatfs", "fstatvfs")
    + members("systemFreeSize", "systemSize", "volumeTotalCapacityKey", r"volumeAvailableCapacity\w*Key"),
    "SystemBootTime": calls("mach_absolute_time") + members("systemUptime"),
    "ActiveKeyboards": members("activeInputModes"),
    "UserDefaults": [r"(?<!\w)UserDefaults[.(]"],
}


def check_privacy():
    for target in sorted(path for path in Path("Sources").iterdir() if path.is_dir()):
        files = [path for path in target.rglob("*.*") if path.suffix in (".swift", ".c", ".h") and ".docc" not in str(path)]
        # A file that only Linux compiles calls nothing that Apple lists.
        texts = [path.read_text() for path in files]
        code = re.sub(r"//.*", "", "\n".join(text for text in texts if not text.startswith("#if defined(__linux__)")))
        used = {name for name, patterns in CATEGORIES.items() if any(re.search(pattern, code) for pattern in patterns)}
        manifest = target / "PrivacyInfo.xcprivacy"
        content = plistlib.loads(manifest.read_bytes()) if manifest.exists() else {}
        types = content.get("NSPrivacyAccessedAPITypes", [])
        declared = {entry["NSPrivacyAccessedAPIType"].removeprefix("NSPrivacyAccessedAPICategory") for entry in types}
        if used != declared or not all(entry["NSPrivacyAccessedAPITypeReasons"] for entry in types):
            problem(f"{target.name} uses {sorted(used)} and its privacy manifest declares {sorted(declared)}")


main()
