"""Finds the Swift code that the project prints, and makes programs of it.

A Markdown page is one program: its ```swift fences in their order. A complete Swift file is a program, and so is each fence of
a doc comment. HTML comments, which neither GitHub nor DocC shows, change this:

    <!-- swift:
    let store = InMemoryKVStore()
    -->
        This code is compiled, but not printed. Before the first fence it belongs to all programs of the page. None of its lines
        begins with @, which DocC would take for a directive.

    <!-- swift: new program -->
        A new program begins, because it declares a name again.

    <!-- swift: not compiled: the reason -->
        The next fence is not compiled.

The code that the doc comments of a target share is in Tests/PrintedCode/TARGET.swift. Shared code that declares a name which the
program declares itself, or uses such a type, is left out.
"""

import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Chunk:
    """Lines of one declaration or statement at the outermost level."""

    file: str
    line: int
    text: str

    declaration = re.compile(
        r"(?:@\w+(?:\((?:[^()]|\([^()]*\))*\))?\s+|(?:public|private|fileprivate|final|nonisolated|indirect|async)\s+)*"
        r"(struct|class|enum|actor|protocol|extension|typealias|func|import|let|var)\s+(\([^)]*\)|[\w.]+)")

    def __post_init__(self):
        code = re.sub(r"^//.*\n?", "", self.text, flags=re.M).lstrip()
        match = self.declaration.match(code)
        self.kind = match[1] if match else None
        self.names = set(re.findall(r"\w+", match[2])) - {"_"} if match else set()
        self.is_type = self.kind in ("struct", "class", "enum", "actor", "protocol", "extension", "typealias")
        self.is_test = code.startswith(("@Test", "@Suite", "@main"))
        self.is_value = self.kind in ("let", "var")
        runs_now = not (self.is_type or self.kind == "func" or re.match(r"(let \w+ = )?Task(\.detached)? \{", code))
        self.awaits = runs_now and re.search(r"\bawait\b|^async let\b", code) is not None

    def stands_outside(self, types_stand_outside):
        """Whether it is outside of the function in a program that has one."""
        return self.kind == "import" or (types_stand_outside and (self.is_type or self.is_test))

    def located(self):
        return f'#sourceLocation(file: "{self.file}", line: {self.line})\n{self.text}'


@dataclasses.dataclass
class Fragment:
    """Lines of code, which a reader sees unless they are hidden."""

    file: str
    line: int
    lines: list
    is_hidden: bool = False

    def chunks(self):
        result, begins = [], True
        for number, line in enumerate(self.lines, self.line):
            is_outermost = line != "" and line[0] not in " })]\""
            if begins and is_outermost:
                result.append((number, [line]))
            elif result:
                result[-1][1].append(line)
            if is_outermost:
                # A comment or an attribute belongs to what follows it.
                begins = not line.startswith("//") and (line[0] != "@" or Chunk.declaration.match(line) is not None)
        return [Chunk(self.file, start, "\n".join(lines)) for start, lines in result]


@dataclasses.dataclass
class Context:
    """A program at the top level of a file, or in a function."""

    name: str
    shown: int  # The number of fragments that are shown in it.
    imports: list
    outside: list
    inside: list
    function: str = ""  # What stands before the body of the function.

    @property
    def joinable(self):
        """What contexts have in common that can be compiled as functions of one file; None for those that cannot."""
        if self.function and all(chunk.kind == "import" for chunk in self.outside):
            return tuple(sorted({*self.imports, *(chunk.text for chunk in self.outside)}))
        return None

    def source(self):
        return "\n".join([*self.imports, *(chunk.located() for chunk in self.outside), self.body("program")]) + "\n"

    def body(self, name):
        lines = "\n".join(chunk.located() for chunk in self.inside)
        return f"func {name}() {self.function} {{\n{lines}\n}}" if self.function else lines

    @staticmethod
    def joined(contexts):
        """A file with each of the contexts as a function."""
        bodies = [context.body(f"program{number}") for number, context in enumerate(contexts)]
        return "\n".join([*contexts[0].joinable, *bodies]) + "\n"


@dataclasses.dataclass
class Program:
    """Fragments that are compiled together, after the imports that they take for granted."""

    name: str
    imports: list
    fragments: list
    shared: list = dataclasses.field(default_factory=list)

    def contexts(self):
        every = self.all_fragments()
        chunks = [chunk for part in every for chunk in part.chunks()]
        imports = [f"import {module}" for module in self.imports]
        yield Context("top level", len(self.shown(every)), imports, [], chunks)

        # Types stand in the function, unless the program has an extension or a test, which can only stand in a file.
        in_file = any(chunk.kind == "extension" or chunk.is_test for chunk in chunks)
        synchronous = self.without_awaiting(every)
        for name, parts, function in [
            ("asynchronous", every, "async throws"), ("synchronous", synchronous, "throws"),
        ]:
            outside, inside, shown = [], [], 0
            for part in parts:
                in_function = [chunk for chunk in part.chunks() if not chunk.stands_outside(in_file)]
                shown += bool(in_function) and not part.is_hidden
                outside += [chunk for chunk in part.chunks() if chunk.stands_outside(in_file)]
                inside += in_function
            if shown:
                yield Context(name, shown, imports, outside, inside, function)

    @property
    def imports_swiftui(self):
        return any(re.search(r"^import SwiftUI", "\n".join(part.lines), re.M) for part in self.all_fragments())

    def all_fragments(self):
        own = [chunk for part in self.fragments for chunk in part.chunks() if chunk.kind != "import"]
        names = set().union(*(chunk.names for chunk in own))
        types = set().union(*(chunk.names for chunk in own if chunk.is_type and chunk.kind != "extension"))
        shared = []
        for part in self.shared:
            for chunk in part.chunks():
                if not (chunk.names & names or set(re.findall(r"\w+", chunk.text)) & types):
                    shared.append(Fragment(chunk.file, chunk.line, chunk.text.split("\n"), is_hidden=True))
        return shared + self.fragments

    @staticmethod
    def shown(fragments):
        return [part for part in fragments if not part.is_hidden]

    @staticmethod
    def without_awaiting(fragments):
        """Leaves out the fragments that await, and those that use what these declare."""
        kept, missing = [], set()
        for part in fragments:
            chunks = part.chunks()
            declared = set().union(*(chunk.names for chunk in chunks))
            used = set(re.findall(r"\w+", "\n".join(part.lines)))
            if any(chunk.awaits for chunk in chunks) or (missing - declared) & used:
                missing |= set().union(*(chunk.names for chunk in chunks if chunk.is_value))
            else:
                kept.append(part)
        return kept


def parse(file, lines, first_line=1):
    """The parts of Markdown: fragments, `None` where a new program begins, and fences that are not compiled, with the reason."""
    reason, index = None, 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if line.startswith("<!-- swift:"):
            start, comment = index, [line.removeprefix("<!-- swift:")]
            while not comment[-1].endswith("-->"):
                comment.append(lines[index])
                index += 1
            comment[-1] = comment[-1].removesuffix("-->").rstrip()
            words = " ".join(comment).strip()
            if words == "new program":
                yield None
            elif words.startswith("not compiled:"):
                reason = words.removeprefix("not compiled:").strip()
            elif not comment[0].strip():
                yield Fragment(file, first_line + start, comment[1:], is_hidden=True)
            else:
                raise SystemExit(f"{file}:{first_line + start - 1}: not a mark: {words}")
        elif fence := re.match(r"(\s*)```(.*)", line):
            start, indent, language = index, len(fence[1]), fence[2].strip()
            while lines[index].strip() != "```":
                index += 1
            code = [text[indent:] for text in lines[start:index]]
            index += 1
            if not language:
                raise SystemExit(f"{file}:{first_line + start - 1}: the fence does not name its language")
            if language == "swift" and reason is None:
                yield Fragment(file, first_line + start, code)
            else:
                yield language if language != "swift" else f"{file}:{first_line + start - 1}: {reason}"
            reason = None


def page(file, imports):
    """The programs of a page, and the fences that are not compiled."""
    programs, others = [[]], []
    for part in parse(file, pathlib.Path(file).read_text().split("\n")):
        if isinstance(part, str):
            others.append(part)
        elif part is None:
            programs.append([])
        else:
            programs[-1].append(part)
    shared = []
    while programs[0] and programs[0][0].is_hidden:
        shared.append(programs[0].pop(0))
    programs = [(Program.shown(fragments), fragments) for fragments in programs]
    return [Program(f"{file}:{shown[0].line - 1}", imports, every, shared) for shown, every in programs if shown], others


def doc_comments(file, imports, shared):
    """The programs in the doc comments of a file, and the fences that are not compiled."""
    programs, others, comment = [], [], []
    for number, line in enumerate(pathlib.Path(file).read_text().split("\n") + [""], 1):
        if match := re.match(r"\s*///( ?)(.*)", line):
            comment.append(match[2])
        elif comment:
            for part in parse(file, comment, number - len(comment)):
                if isinstance(part, str):
                    others.append(part)
                else:
                    programs.append(Program(f"{file}:{part.line - 1}", imports, [part], shared))
            comment = []
    return programs, others


def complete(file):
    """A file that is a program."""
    return Program(file, [], [Fragment(file, 1, pathlib.Path(file).read_text().split("\n"))])


def step(file):
    """A file of a tutorial, NN-NAME, after the latest earlier files of other names, except programs, manifests and tests. A test
    is compiled in the module that it tests."""
    name = pathlib.Path(file).name.split("-", 1)[1]
    latest = {}
    for path in sorted(pathlib.Path(file).parent.glob("*.swift")):
        other = path.name.split("-", 1)[1]
        if str(path) < file and other not in (name, "main.swift", "Package.swift") and not other.endswith("Tests.swift"):
            latest[other] = str(path)
    program = complete(file)
    program.fragments[0].lines = [
        "" if line.startswith("@testable import ") else line for line in program.fragments[0].lines]
    program.fragments[:0] = [
        Fragment(path, 1, pathlib.Path(path).read_text().split("\n"), is_hidden=True) for path in latest.values()]
    return program
