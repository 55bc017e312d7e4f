"""Random trees of stores and of the files of an app, and what is known of them without the code under test.

A tree nests file stores, key-value stores, vaults, caches and ordinary directories. It is made from templates, which
`forge` writes once, and from files that are written as an app would. `Tree` remembers the place and the keys of every
store, so that a judge can tell the files of the app from those that belong to a store.
"""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import time

# fmt: off
# Names that are valid keys of a file store.
KEYS = [text.encode() for text in (
    "log", "#shared", "#reserve", "#log-new", "#quarantine-new", "x.cache", "vault", "key", ".b.partial",
    "a.forgecache", "quarantine", "quarantine-records-1", "manifest", "content", "note.txt", "\u00e9", "e\u0301",
    "x\u0600", "a\u034fb", "z\u200d", "\u0301", "-rf", "--", "-", "~", " ", "a b", "\u00e9" * 127 + "x", "n" * 255,
    "#hash", "#", "#tmp", "#store", "lock", "%2e%2e", "CON", "..a", "...", "\U0001f600", "\u202eabc", "\ufeffbom",
    "#tmp\u0301-x", "a:b", "*?", "$(x)", "log\u0301", "LOG", "#Shared", "\u2215", ".forge", "#quarantine", "#1#2",
)]
# Names that no key has, which other programs can give to files.
OTHERS = [text.encode() for text in (
    "#tmp-x", "#tmp-abcdefghabcdefgh-0", "#tmp-0123456789abcdef", "#trash-x", "#trash-abcdefghabcdefgh-0", "#move-x",
    "#journal-x", "#notes#", "##", "#LOCK", "new\nline", "tab\t", "back\\slash", "\x7f", "\u0085", "#l\u200dock",
    "#TMP-x", "\x1b[31m", "#tmp-" + "y" * 250)] + [b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"a\xcc", b"\xc0\xaf"]
# Names that make a directory one of an unknown store.
MARKERS = [text.encode() for text in (
    "#lock", "#lock-x", "#lock-vaults", "#store-x", "#store-files", "#store-key-value", "#journal-0", "#journal-7")]
# fmt: on

KINDS = {"key-value": 1, "vaults": 2, "files": 3, "values": 4, "images": 5, "cache": 6}


def marker(kind):
    """The content of the marker of a store, as the documentation of its format describes it."""
    content = b"FORGEDIR" + bytes([1, KINDS[kind], 0, 0])
    return content + crc32c(content).to_bytes(4, "little")


def crc32c(data):
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = (checksum >> 1) ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def is_store_marker(name):
    return name == b"#lock" or name.startswith((b"#lock-", b"#store-")) or bool(re.fullmatch(rb"#journal-[0-9]+", name))


class Templates:
    """Stores that `forge` has written, each in a directory, to be copied into trees."""

    def __init__(self, forge, directory):
        self.forge = forge
        self.directory = os.fsencode(directory)
        os.makedirs(directory)
        self.key_values = []
        generator = random.Random(0)
        for count in (0, 1, 7, 64, 65, 200):
            values = {
                "key.%d" % number if number % 3 else "gr\u00fc\u00dfe/%d" % number: "v" * generator.randrange(100)
                + str(number)
                for number in range(count)
            }
            plain = self.make_store("plain%d" % count, [values])
            old = {key: "old" * generator.randrange(40) for key in values}
            rewritten = self.make_store("rewritten%d" % count, [old, {key: "x" for key in values}, values])
            self.key_values += [(plain, values), (rewritten, values)]
            if count:
                self.run("backup", rewritten, self.path("backup"))
                self.run("restore", self.path("backup"), self.path("compacted%d" % count))
                shutil.rmtree(self.path("backup"))
                self.key_values.append((self.path("compacted%d" % count), values))
        self.vault = self.path("vaults")
        os.makedirs(self.vault)
        for number in range(3):
            self.run(
                "secret",
                "set",
                "--create",
                "--key-file",
                self.vault + b"/key",
                self.vault + b"/vault",
                "secret.%d" % number,
                input=b"value %d" % number,
            )
        self.run("demo", "--keep", "--directory", self.path("demo"))
        self.files = self.path("files")
        self.run("file", "set", self.files, "a", input=b"text")
        os.unlink(self.files + b"/a")
        os.makedirs(self.path("cache"))
        self.write(self.path("cache") + b"/#store-cache", marker("cache"))
        for number in range(3):
            self.write(self.path("cache") + b"/entry%d.forgecache" % number, b"FORGECCH" + generator.randbytes(100))
        self.images = [
            self.path("demo/images/") + name
            for name in sorted(os.listdir(self.path("demo/images")))
            if name.endswith(b".cache")
        ]
        self.contents = self.make_contents(generator)

    def path(self, name):
        return os.path.join(self.directory, os.fsencode(name))

    def run(self, *words, input=b""):
        result = subprocess.run([self.forge, *words], input=input, capture_output=True)
        if result.returncode != 0:
            raise RuntimeError("%s: %d %s" % (words, result.returncode, result.stderr.decode()))

    @staticmethod
    def write(path, content):
        with open(path, "wb") as file:
            file.write(content)

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return file.read()

    def make_store(self, name, states):
        path = self.path(name)
        self.run("kv", "set", path, "first", "1")
        self.run("kv", "rm", path, "first")
        for values in states:
            lines = "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in values.items())
            if values:
                self.run("copy", "json:-", b"kv:" + path, input=lines.encode())
        return path

    def make_contents(self, generator):
        """What an app stores: also the files of stores, as they are, with a changed bit, and cut off."""
        contents = [
            b"",
            b"text",
            generator.randbytes(5000),
            generator.randbytes(70_000),
            b"FORGEIMG",
            b"FORGECCH",
            b"\0" * 4096,
        ]
        contents += [marker(kind) for kind in KINDS]
        stored = [self.read(path + b"/log") for path, _ in self.key_values[::3]]
        stored += [self.read(self.vault + b"/vault"), self.read(self.vault + b"/key")]
        stored += [self.read(path) for path in self.images[:2]]
        stored += [self.read(self.path("cache/entry0.forgecache"))]
        self.damaged_logs = []
        for content in stored:
            changed = bytearray(content)
            changed[generator.randrange(len(changed))] ^= 1 << generator.randrange(8)
            if content.startswith(stored[0][:8]):
                self.damaged_logs.append(bytes(changed))
            contents += [content, bytes(changed), content[: generator.randrange(len(content))]]
        return contents


class Tree:
    """One random tree below `root`, with the directories `outside` and perhaps `snapshot` beside it."""

    def __init__(self, templates, scratch, generator):
        self.templates = templates
        self.generator = generator
        self.scratch = os.fsencode(scratch)
        self.root = self.scratch + b"/all"
        self.outside = self.scratch + b"/outside"
        # The kind of the store in each directory that is the root of one, by path relative to the root.
        self.stores = {}
        # The states that the keys of each key-value store may have; several if the last record is cut off.
        self.keys = {}
        # The kind of damage that was planted, by the path of the file.
        self.damage = {}
        self.holders = []
        self.held = set()
        os.makedirs(self.root)
        os.makedirs(self.outside)
        self.write(self.outside + b"/sentinel", b"outside")
        if generator.random() < 0.7:
            self.fill_plain(b"")
        else:
            self.fill(b"")
        for number in range(generator.randint(1, 3)):
            self.nest(b"", b"top%d" % number, generator.randint(0, 3))
        self.link_files()
        self.plant_damage()
        if generator.random() < 0.25:
            subprocess.run(["cp", "-al", self.root, self.scratch + b"/snapshot"], check=True)
        elif generator.random() < 0.5:
            self.hold()

    # MARK: Paths

    def chance(self, share):
        return self.generator.random() < share

    def at(self, path):
        return os.path.join(self.root, path) if path else self.root

    @staticmethod
    def join(directory, name):
        return directory + b"/" + name if directory else name

    def kind(self, directory):
        """The kind of the store at a directory, or of the one with nested keys above it; None outside."""
        if directory in self.stores:
            return self.stores[directory]
        while directory:
            directory = directory.rpartition(b"/")[0]
            if directory in self.stores:
                return self.stores[directory] if self.stores[directory] in ("files", "values", "unknown") else None
        return None

    @staticmethod
    def write(path, content, mode=0o644):
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)

    # MARK: Directories

    def nest(self, above, name, depth):
        directory = self.join(above, name)
        if os.path.lexists(self.at(directory)) or len(self.at(directory)) > 3000:
            return
        os.mkdir(self.at(directory), self.generator.choice([0o700, 0o755, 0o750]))
        self.fill(directory)
        if depth > 0:
            for number in range(self.generator.randint(1, 3)):
                below = b"n%d" % number
                if self.chance(0.3) and self.kind(directory) != "key-value":
                    below = self.generator.choice(KEYS)
                self.nest(directory, below, depth - 1)

    def fill(self, directory):
        makers = (
            [self.fill_files] * 3
            + [self.fill_keys] * 3
            + [self.fill_plain] * 2
            + [self.fill_vault, self.fill_images, self.fill_values, self.fill_cache, self.fill_nothing]
        )
        self.generator.choice(makers)(directory)

    def fill_nothing(self, directory):
        pass

    def place(self, template, directory, kind):
        subprocess.run(["cp", "-a", template + b"/.", self.at(directory)], check=True)
        self.stores[directory] = kind

    def fill_files(self, directory):
        if self.chance(0.3):
            self.write(self.scratch + b"/input", b"set by the command")
            self.templates.run("file", "set", self.at(directory), "by/command", self.scratch + b"/input")
            self.stores[directory] = "files"
        else:
            self.place(self.templates.files, directory, "files")
        self.fill_nested_keys(directory)

    def fill_values(self, directory):
        self.place(self.templates.path("demo/values"), directory, "values")
        self.fill_nested_keys(directory)

    def fill_nested_keys(self, directory):
        """Files of the app in a store whose keys are paths, and a few that no key can have."""
        for _ in range(self.generator.randint(0, 8)):
            below = directory
            for _ in range(self.generator.choice([0, 0, 1, 1, 2, 3])):
                below = self.join(below, self.generator.choice([b"d0", b"d1", self.generator.choice(KEYS)]))
            names = KEYS if self.chance(0.85) else OTHERS if below == directory or self.chance(0.8) else MARKERS
            self.app_file(below, self.generator.choice(names))
        if self.chance(0.2):
            self.copied_store(directory)
        self.surroundings(directory)

    def copied_store(self, directory):
        """A whole store that the app has copied below its file store, by keys, so without markers."""
        below = self.join(directory, self.generator.choice([b"copy", b"log", b"vault"]))
        if os.path.lexists(self.at(below)):
            return
        template = self.generator.choice([path for path, _ in self.templates.key_values] + [self.templates.vault])
        os.mkdir(self.at(below))
        for name in os.listdir(template):
            if not is_store_marker(name):
                shutil.copy(template + b"/" + name, self.at(below))

    def fill_keys(self, directory):
        template, values = self.generator.choice(self.templates.key_values)
        self.place(template, directory, "key-value")
        states = [values]
        log = self.at(directory) + b"/log"
        if self.chance(0.2):
            length = os.path.getsize(log)
            value = "set by the command" * self.generator.randint(1, 20)
            self.templates.run("kv", "set", self.at(directory), "last", value)
            states = [dict(values, last=value)]
            if self.chance(0.5) and os.path.getsize(log) > length:
                with open(log, "r+b") as file:
                    file.truncate(self.generator.randrange(length, os.path.getsize(log)))
                states.append(values)
        self.keys[directory] = states
        self.foreign_files(directory, {b"log", b"#shared", b"#reserve", b"#log-new", b"#quarantine-new"})
        self.surroundings(directory)

    def fill_vault(self, directory):
        self.place(self.templates.vault, directory, "vaults")
        self.foreign_files(directory, {b"vault", b"key", b"log"}, [b"another program's", b""])
        self.surroundings(directory)

    def fill_images(self, directory):
        self.place(self.templates.path("demo/images"), directory, "images")
        self.foreign_files(directory, {b"x.cache"})

    def fill_cache(self, directory):
        self.place(self.templates.path("cache"), directory, "cache")
        self.foreign_files(directory, set())

    def foreign_files(self, directory, reserved, contents=None):
        """Files of other programs in the root of a store."""
        for _ in range(self.generator.choice([0, 0, 1, 2])):
            name = self.generator.choice(KEYS + OTHERS)
            if name not in reserved:
                self.app_file(directory, name, contents)

    def fill_plain(self, directory):
        for _ in range(self.generator.randint(0, 5)):
            names = self.generator.choice([KEYS, KEYS, KEYS, OTHERS, OTHERS, MARKERS if directory else KEYS])
            name = self.generator.choice(names)
            # A log in the directory that is given to `repair` is repaired.
            if directory or name != b"log":
                self.app_file(directory, name)
        if directory and self.chance(0.2):
            self.app_file(directory, b"log", self.templates.damaged_logs)
        self.surroundings(directory)

    def surroundings(self, directory):
        """Empty directories, links and special files."""
        path = self.at(directory)
        if self.chance(0.3):
            name = self.generator.choice([b"empty", b"#shared", b"log\xcc\x81", b"\xff"])
            self.make_directory(self.join(directory, b"empty" if self.stores.get(directory) == "key-value" else name))
        if self.chance(0.3):
            name = self.join(path, b"link%d" % self.generator.randrange(3))
            target = self.generator.choice(
                [b"/", b"..", b".", b"missing", self.outside, self.outside + b"/sentinel", b"note.txt"]
            )
            if not os.path.lexists(name):
                os.symlink(target, name)
        if self.chance(0.08) and not os.path.lexists(path + b"/pipe"):
            os.mkfifo(path + b"/pipe")
        if self.chance(0.05) and len(path) < 80 and not os.path.lexists(path + b"/socket"):
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path + b"/socket")

    def make_directory(self, directory):
        """Creates a directory with those above it; returns whether that is possible."""
        if len(self.at(directory)) > 3500:
            return False
        try:
            os.makedirs(self.at(directory), exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return False
        return not os.path.islink(self.at(directory))

    def app_file(self, directory, name, contents=None):
        path = self.join(self.at(directory), name)
        if not self.make_directory(directory) or os.path.lexists(path):
            return
        if directory in self.stores and is_store_marker(name) and directory not in self.unknown():
            return
        contents = contents or self.templates.contents
        if is_store_marker(name):
            contents = [content for content in contents if not content.startswith(b"FORGEDIR")]
        self.write(path, self.generator.choice(contents), self.generator.choice([0o644, 0o600, 0o400, 0o755, 0o666]))
        if self.chance(0.2):
            value = self.generator.randbytes(9) if self.kind(directory) is None else b"text/plain"
            os.setxattr(path, b"user.forgestorage." + self.generator.choice([b"type", b"a.b-c_1"]), value)
        if self.chance(0.1):
            os.setxattr(path, b"user.other", b"another program's")
        if is_store_marker(name):
            self.stores.setdefault(directory, "unknown")

    def unknown(self):
        return [path for path, kind in self.stores.items() if kind == "unknown"]

    # MARK: Links, damage and use

    def files(self):
        """All regular files, by path relative to the root."""
        found = []
        for directory, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(directory, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    found.append(os.path.relpath(path, self.root))
        return sorted(found)

    def role(self, path):
        """The use of a file: `app`, or of a file of a store `internal`, `marker`, `log`, `vault`, `key` or `entry`."""
        directory, _, name = path.rpartition(b"/")
        kind = self.stores.get(directory)
        if kind in (None, "unknown"):
            return "app"
        if name.startswith(b"#store-"):
            return "marker"
        if is_store_marker(name) or kind == "key-value" and name in (b"#shared", b"#reserve"):
            return "internal"
        if kind == "key-value" and name == b"log":
            return "log"
        if kind == "vaults" and name in (b"vault", b"key"):
            return name.decode()
        return "entry" if kind == "images" and name.endswith(b".cache") else "app"

    def link_files(self):
        """Hard links between files of the app at every depth, to files outside, and of files of stores."""
        files = self.files()
        places = sorted({path.rpartition(b"/")[0] for path in files})
        for number in range(self.generator.choice([0, 0, 1, 2, 4])):
            if not files:
                return
            source = self.generator.choice(files)
            if self.role(source) in ("internal", "marker"):
                continue
            kinds = [self.stores.get(place) for place in places]
            place = self.generator.choice(places)
            link = self.join(place, b"linked%d" % number)
            if self.chance(0.3):
                os.link(self.at(source), self.outside + b"/linked%d" % number)
            elif not os.path.lexists(self.at(link)) and self.stores.get(place) not in ("vaults", "images"):
                os.link(self.at(source), self.at(link))

    def plant_damage(self):
        for path in self.files():
            role = self.role(path)
            if role not in ("log", "vault", "key", "entry") or not self.chance(0.12):
                continue
            content = bytearray(Templates.read(self.at(path)))
            if role == "key" and self.chance(0.5):
                os.chmod(self.at(path), 0o644)
                self.damage[path] = "exposed"
                continue
            if role == "log":
                # What follows a record that is cut off is part of it.
                if len(content) < 400 or len(self.keys[path.rpartition(b"/")[0]]) > 1:
                    continue
                content[self.generator.randrange(200, len(content) - 100)] ^= 1 << self.generator.randrange(8)
                self.keys[path.rpartition(b"/")[0]] = None
            else:
                # Vaults and keys are recognised by their first bytes.
                content = content[: self.generator.randrange(16, len(content))] if self.chance(0.5) else content
                content[self.generator.randrange(12, len(content))] ^= 1 << self.generator.randrange(8)
            # Written as a new file: another hard link keeps the old content.
            status = os.stat(self.at(path))
            os.unlink(self.at(path))
            self.write(self.at(path), content, status.st_mode & 0o777)
            self.damage[path] = role

    def hold(self):
        """Opens some of the key-value stores in other processes."""
        for directory in sorted(self.keys):
            log = self.at(directory) + b"/log"
            if self.keys[directory] is None or not self.chance(0.4) or os.stat(log).st_nlink > 1:
                continue
            process = subprocess.Popen(
                [self.templates.forge, b"copy", b"json:-", b"kv:" + self.at(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            self.holders.append(process)
            self.held.add(directory)
            # The first 64 are written as one record as soon as there is one more.
            lines = "".join('{"key":"held.%d","value":"h"}\n' % number for number in range(65))
            process.stdin.write(lines.encode())
            process.stdin.flush()
            held = {"held.%d" % number: "h" for number in range(64)}
            self.keys[directory] = [dict(state, **held) for state in self.keys[directory]]
            self.wait(process, log)

    def wait(self, process, log):
        """Waits until a process has written its keys, and changes nothing any more."""
        deadline = time.monotonic() + 60
        last, count = None, 0
        while time.monotonic() < deadline and process.poll() is None:
            places = [os.stat(place) for place in (log, os.path.dirname(log))]
            now = [(status.st_mtime_ns, status.st_ctime_ns, status.st_ino) for status in places]
            count = count + 1 if now == last and b"held.63" in Templates.read(log) else 0
            if count == 4:
                return
            last = now
            time.sleep(0.05)
        raise RuntimeError("%r was not opened: %r" % (log, process.stderr.read() if process.poll() is not None else ""))

    def release(self):
        for process in self.holders:
            process.stdin.close()
            process.wait()
            process.stderr.close()
        self.holders = []
