"""Compares the stub modules in Tests/AppleStubs with what Apple publishes: the C library with its headers, as PyPI's
`ziglang` contains them; Security, Core Foundation and Image I/O with the metadata of PyPI's `pyobjc-framework-…`."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ZIG = "ziglang==0.17.1"
FRAMEWORKS = ["pyobjc-framework-Security==12.2.2", "pyobjc-framework-Cocoa==13.0", "pyobjc-framework-Quartz==13.0"]

HEADERS = """dirent.h dispatch/dispatch.h errno.h fcntl.h stdio.h string.h sys/event.h sys/file.h sys/mman.h sys/mount.h
    sys/stat.h sys/types.h sys/wait.h termios.h unistd.h signal.h sys/ioctl.h sys/socket.h netinet/in.h sys/un.h
    spawn.h""".split()

# Declared by Swift's overlay of Darwin, or imported by it with another type than the header's.
OVERLAY = {"errno": "Int32", "S_IFMT": "mode_t", "S_IFLNK": "mode_t", "S_IFREG": "mode_t", "S_IFDIR": "mode_t"}
# Built into the compiler, which reports another type than the header's `size_t`.
BUILT_IN = {"strlen": "Int"}
# Not in the headers at hand: from sys/xattr.h of the published sources of xnu.
UNPROVED = {"flistxattr", "fgetxattr", "fsetxattr", "XATTR_NOFOLLOW"}
# Overloads that take the type that Linux gives to a constant.
UNPROVED |= {"getrlimit", "setrlimit", "socket"}
# Overloads for the two types of posix_spawn(3), which are pointers there and structures on Linux.
UNPROVED |= {"posix_spawnp"} | {
    f"posix_spawn_file_actions_{name}" for name in ("init", "destroy", "adddup2", "addopen", "addchdir_np")
} | {f"posix_spawnattr_{name}" for name in ("init", "destroy", "setsigdefault", "setsigmask", "setflags")}

# A C array of 1,024 characters, which Swift imports as a tuple: `CChar1024` in the stub.
CHARACTERS = "(" + ", ".join(["CChar"] * 1024) + ")"

SIMPLE = {
    "int": "Int32", "unsigned int": "UInt32", "short": "Int16", "unsigned short": "UInt16", "char": "CChar",
    "signed char": "Int8", "unsigned char": "UInt8", "long": "Int", "unsigned long": "UInt", "long long": "Int64",
    "unsigned long long": "UInt64", "void": "()", "size_t": "Int", "ssize_t": "Int", "rsize_t": "Int",
}


def fetch(folder: Path):
    """Downloads the packages and unpacks what is needed of them."""
    wheels = folder / "wheels"
    common = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", wheels]
    subprocess.run(common + [ZIG], check=True)
    mac = ["--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12"]
    subprocess.run(common + mac + ["--platform", "macosx_10_13_universal2"] + FRAMEWORKS, check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            wanted = [n for n in archive.namelist() if "/any-darwin-any/" in n or n.endswith("_metadata.py")]
            archive.extractall(folder, wanted)
    shutil.rmtree(wheels)
    return folder / "ziglang/lib/libc/include/any-darwin-any"


def clang(headers: Path, target: str, *arguments):
    resources = subprocess.run(["clang", "-print-resource-dir"], check=True, capture_output=True, text=True)
    include = ["-nostdinc", "-isystem", resources.stdout.strip() + "/include", "-isystem", str(headers)]
    return subprocess.run(
        ["clang", "-target", target, "-fblocks", "-fsyntax-only", *include, *map(str, arguments)], capture_output=True,
        text=True)


class Header:
    """The declarations of Apple's headers."""

    def __init__(self, headers: Path, folder: Path, target: str, names):
        self.headers, self.folder, self.target = headers, folder, target
        source = folder / "declarations.c"
        self.includes = "".join(f"#include <{name}>\n" for name in HEADERS)
        # A macro becomes a variable of its type; a name that is none is left out.
        macros = "".join(f"#ifdef {n}\nstatic const __typeof__({n}) forge_{n} = {n};\n#endif\n" for n in names if n != "errno")
        source.write_text(self.includes + macros)
        result = clang(headers, target, "-Xclang", "-ast-dump=json", source)
        if result.returncode:
            raise SystemExit(f"check-apple: the headers do not compile for {target}:\n{result.stderr}")
        self.types, self.functions, self.records, self.values = {}, {}, {}, {}
        for node in json.loads(result.stdout)["inner"]:
            self.add(node)

    def add(self, node):
        kind, name = node["kind"], node.get("name")
        if kind == "TypedefDecl":
            self.types[name] = node["type"]["qualType"]
        elif kind == "FunctionDecl":
            parameters = [p["type"]["qualType"] for p in node.get("inner", []) if p["kind"] == "ParmVarDecl"]
            self.functions[name] = (node["type"]["qualType"].split("(")[0].strip(), parameters, node.get("variadic"))
        elif kind == "RecordDecl" and name and node.get("completeDefinition"):
            fields = [f for f in node["inner"] if f["kind"] == "FieldDecl"]
            self.records[name] = [(f.get("name"), f["type"]["qualType"]) for f in fields]
        elif kind == "VarDecl" and name.startswith("forge_"):
            kind = node["type"]
            self.values[name.removeprefix("forge_")] = kind.get("desugaredQualType", kind["qualType"])
        elif kind == "EnumDecl":
            for item in node.get("inner", []):
                if item["kind"] == "EnumConstantDecl":
                    self.values[item["name"]] = "int"

    def swift(self, c: str, is_result=False) -> str:
        """The Swift type that a C type is imported as, with aliases of other types resolved."""
        c = re.sub(r"\b(restrict|struct|volatile|_Null_unspecified)\b", "", c).strip()
        mark = "?" if "_Nullable" in c else "" if "_Nonnull" in c else "!"
        c = re.sub(r"\s*\b(_Nullable|_Nonnull)\b", "", c).strip()
        if array := re.fullmatch(r"(.+)\[(\d+)\]", c):
            return "(" + ", ".join([self.swift(array[1])] * int(array[2])) + ")"
        if c.endswith("*"):
            pointee = c[:-1].strip()
            mutable = "" if pointee.startswith("const ") else "Mutable"
            pointee = pointee.removeprefix("const ").strip()
            if pointee == "void":
                return f"Unsafe{mutable}RawPointer{mark}"
            return f"Unsafe{mutable}Pointer<{self.swift(pointee)}>{mark}"
        c = c.removeprefix("const ").strip()
        if c in SIMPLE:
            return SIMPLE[c]
        if c in self.types and c not in self.records:
            target = self.types[c]
            return self.swift(target) if target.replace("struct ", "") != c else c
        return c


class Stub:
    """The declarations of a stub module. A public declaration that cannot be read is an error."""

    def __init__(self, path: Path):
        text = re.sub(r"//.*", "", path.read_text())
        text = re.sub(r"^extension \w+ \{.*?^\}\n|^public (protocol Dispatch|struct HandlerOf).*?\}\n", "", text, flags=re.S | re.M)
        self.aliases = dict(re.findall(r"^public typealias (\w+) = (\S+)$", text, re.M))
        self.values = {
            name: (kind, value) for name, kind, value in
            re.findall(r"^public var (\w+): (\w+) \{\s*(?:get \{ (?=\S+ \}\s*set))?(\S*?) ?\}", text, re.M)}
        self.functions, self.structs = {}, {}
        for name, parameters, result in re.findall(
                r"^(?:@discardableResult )?public func (\w+)\((.*?)\)(?: -> (\S+))? \{", text, re.M | re.S):
            kinds = [p.split(": ", 1)[1].strip().removesuffix(",") for p in re.findall(r"_ \w+: [^,]+,?", parameters)]
            self.functions.setdefault(name, []).append(([k.removeprefix("@escaping ") for k in kinds], result or "()"))
        for name, body in re.findall(r"^public struct (\w+) \{(.*?)^\}", text, re.M | re.S):
            self.structs[name] = re.findall(r"^    public var (\w+): ([^=\n]+?)(?: = .*)?$", body, re.M)
        for name in re.findall(r"^public struct (\w+) \{\}", text, re.M):
            self.structs[name] = []
        known = {*self.aliases, *self.values, *self.functions, *self.structs}
        for name in re.findall(r"^(?:@\w+ )?public (?:\w+ )*?(?:func|var|let|struct|class|typealias|enum) (\w+)", text, re.M):
            if name not in known:
                raise SystemExit(f"check-apple: {path}: {name} is declared in a form that the check does not read")

    def resolve(self, kind: str) -> str:
        kind = re.sub(r"\bCChar1024\b", CHARACTERS, kind)
        return re.sub(r"\w+", lambda m: self.aliases.get(m[0], m[0]), kind)


def prove_c_library(path: Path, headers: Path, folder: Path, target: str):
    """Yields what the stub of the C library declares otherwise than the headers."""
    stub = Stub(path)
    header = Header(headers, folder, target, stub.values)
    for name, kind in stub.aliases.items():
        if name.endswith("_t") and header.swift(name) != stub.resolve(kind):
            yield f"typealias {name}: {kind}, but {header.swift(name)} in the header"
    asserted = {}
    for name, (kind, value) in stub.values.items():
        if name in UNPROVED or name == "errno":
            continue
        if name not in header.values:
            yield f"{name}: the headers have no such name"
            continue
        expected = OVERLAY.get(name) or header.swift(header.values[name])
        if kind != expected:
            yield f"{name}: {kind}, but {expected} in the header"
        asserted[name] = int(value.replace("_", "").replace("0o", ""), 8 if value.startswith("0o") else 0)
    source = folder / "values.c"
    source.write_text(header.includes + "".join(
        f'_Static_assert({name} == {value}, "{name}");\n' for name, value in asserted.items()))
    for line in clang(headers, target, "-ferror-limit=0", source).stderr.splitlines():
        if "error:" in line or "evaluates to" in line:
            yield line.split(": ", 1)[1]
    for name, overloads in stub.functions.items():
        if name in UNPROVED:
            continue
        if name not in header.functions:
            yield f"{name}(): the headers have no such function"
            continue
        result, parameters, is_variadic = header.functions[name]
        expected = [header.swift(p) for p in parameters]
        for kinds, kind in overloads:
            kinds = [stub.resolve(k) for k in kinds]
            fits = kinds[:len(expected)] == expected if is_variadic else kinds == expected
            if not fits:
                yield f"{name}(): ({', '.join(kinds)}), but ({', '.join(expected)}) in the header"
            expected_result = BUILT_IN.get(name) or header.swift(result)
            if stub.resolve(kind) != expected_result:
                yield f"{name}(): returns {kind}, but {expected_result} in the header"
    for name, fields in stub.structs.items():
        if name not in header.records and name not in header.types:
            yield f"struct {name}: the headers have no such type"
            continue
        record = header.records.get(name) or header.records.get(header.types[name].removeprefix("struct "), [])
        if not fields:
            continue
        expected = [(field, header.swift(kind)) for field, kind in record]
        actual = [(field, stub.resolve(kind)) for field, kind in fields]
        for one, other in zip(actual + [None] * len(expected), expected + [None] * len(actual)):
            if one != other:
                yield f"struct {name}: {one}, but {other} in the header"
                break


def prove_frameworks(stubs: Path, metadata: Path, sources: Path):
    """Yields the names of Security, Core Foundation and Image I/O that do not exist, and wrong types and values."""
    for module, folders in {"Security": ["Security", "CoreFoundation"],
                            "ImageIO": ["Quartz/ImageIO", "Quartz/CoreGraphics", "CoreFoundation"]}.items():
        text = "".join((metadata / folder / "_metadata.py").read_text() for folder in folders)
        constants = set(re.findall(r"\$(\w+)(?:@[^$\"]*)?(?=\$|\")", text))
        functions = dict(re.findall(r"\"(\w+)\":\s*\(\s*b\"([^\"]+)\"", text))
        stub = (stubs / module / f"{module}.swift").read_text()
        for name in re.findall(r"^public (?:var|let) (k\w+): CFString\b", stub, re.M):
            if name not in constants:
                yield f"{module}: there is no constant {name}"
        for name in re.findall(r"^public (?:var|let) (\w+)\b", stub, re.M):
            if not re.search(rf"^public (?:var|let) {name}: CFString\b", stub, re.M):
                yield f"{module}: {name} is declared in a form that the check does not read"
        for name, parameters, result in re.findall(
                r"^public func (\w+)\((.*?)\)(?: -> (\S+))? \{", stub, re.M | re.S):
            if name in ("bridge", "unbridged"):
                continue
            if name not in functions:
                yield f"{module}: there is no function {name}"
                continue
            kinds = [result or "()"] + [p.split(": ", 1)[1] for p in re.findall(r"_ \w+: [^,]+", parameters)]
            actual = "".join(ENCODINGS.get(kind.strip(), "!") for kind in kinds)
            expected = re.sub(r"\^\{(?:__)?(?:CF|CG)\w+=\}", "@", functions[name])
            if actual != expected:
                yield f"{module}: {name}() is encoded {actual}, but {expected} in the framework"
    # The status codes that the library itself names.
    security = (metadata / "Security/_metadata.py").read_text()
    values = dict(re.findall(r"\$(errSec\w+)@(-?\d+)", security))
    status = (sources / "ForgeCrypt/Keychain/KeychainStatus.swift")
    text = status.read_text() if status.exists() else "".join(
        p.read_text() for p in sources.glob("ForgeCrypt/**/*.swift") if "static let missingEntitlement" in p.read_text())
    codes = dict(re.findall(r"static let (\w+) = KeychainStatus\(rawValue: (-?\d+)\)", text))
    names = dict(re.findall(r"\.(\w+): \"(errSec\w+)\"", text))
    if not codes or not names:
        yield "ForgeCrypt: the status codes of the Keychain were not found"
    for short, name in names.items():
        if name in values and values[name] != codes.get(short):
            yield f"ForgeCrypt: {name} is {values[name]}, not {codes.get(short)}"
        elif name not in values:
            yield f"ForgeCrypt: there is no status {name}"


# Objective-C's type encodings of the types in the stubs.
ENCODINGS = {
    "OSStatus": "i", "CFDictionary": "@", "CFDictionary?": "@", "CFData": "@", "CGImageSource": "@",
    "CGImageSource?": "@", "CGImage?": "@", "Int": "Q", "UnsafeMutablePointer<CFTypeRef?>?": "o^@",
}

if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
