"""Judges the verbs of `forge` on random trees by manifests that the code under test has no part in.

`TreeCheck` compares the manifests before and after each verb, and the lists and counts that the verb prints with what
the manifest has.
"""

import collections
import json
import os
import shutil

from manifests import content, is_directory, is_key, is_regular, is_text, manifest, shown
from random_trees import MARKERS, OTHERS, Templates, Tree
from tree_copies import TreeCopies


class TreeCheck(TreeCopies):
    """The verbs on one tree."""

    totals = collections.Counter()

    def __init__(self, run, templates, scratch, generator):
        self.forge_run = run
        self.scratch = os.fsencode(scratch)
        self.generator = generator
        self.violations = []
        self.templates = templates
        self.tree = Tree(templates, scratch, generator)

    def expect(self, condition, text, *details):
        if not condition:
            self.violations.append("%s %s" % (text, " ".join(map(repr, details))[:1500]))

    def forge(self, *words, **arguments):
        """Runs a verb with `--json`; returns its status and its rows, and requires that it ends with a known status."""
        status, output, errors = self.forge_run(*words, "--json", **arguments)
        self.totals["commands"] += 1
        self.last = (words[0], status, errors.strip()[-500:])
        self.expect(status in (0, 1, 2, 4, 5, 64), "status %d" % status, words, errors[-500:])
        try:
            return status, [json.loads(line) for line in output.splitlines()]
        except ValueError as error:
            self.expect(False, "output that is not JSON", words, error)
            return status, []

    @staticmethod
    def summary(rows):
        return rows[-1] if rows and rows[-1].get("type") == "summary" else {}

    def same(self, before, after, text, ignoring=()):
        """Expects two manifests to be equal."""
        changed = [
            path
            for path in before.keys() | after.keys()
            if before.get(path) != after.get(path) and path not in ignoring
        ]
        for path in sorted(changed)[:5]:
            self.expect(False, text, path, before.get(path), after.get(path))

    # MARK: The sequence

    def run(self):
        tree = self.tree
        self.before = manifest(self.scratch)
        self.source = {path[4:]: entry for path, entry in self.before.items() if path.startswith(b"all/")}
        regular = {path: entry for path, entry in self.source.items() if is_regular(entry)}
        self.totals["trees"] += 1
        self.totals["files"] += len(regular)
        self.totals["bytes"] += sum(entry.size for entry in regular.values())
        self.totals["keys"] += sum(len(states[0]) for states in tree.keys.values() if states)
        self.totals["stores"] += sum(kind != "unknown" for kind in tree.stores.values())
        self.totals["damaged files"] += len(tree.damage)
        self.totals["stores with a cut-off record"] += sum(len(states or ()) > 1 for states in tree.keys.values())
        self.totals["stores in use"] += len(tree.held)
        self.totals["unknown stores"] += len(tree.unknown())
        self.totals["snapshots"] += os.path.exists(self.scratch + b"/snapshot")
        inodes = collections.Counter(entry.inode for entry in self.before.values() if is_regular(entry))
        self.totals["hard links"] += sum(count - 1 for count in inodes.values())
        try:
            self.check()
            self.disk_usage()
            if self.generator.random() < 0.4:
                self.lists("before any change")
                self.backup("b0", "r0")
            self.repair()
            self.lists("after the repair")
            self.backup("b", "r")
            self.copies_of_tree()
            self.copies_of_stores()
            if self.generator.random() < 0.3:
                self.refused_names()
        finally:
            tree.release()

    def unchanged(self, text):
        self.same(self.before, manifest(self.scratch), text)

    def reread(self):
        self.before = manifest(self.scratch)
        self.source = {path[4:]: entry for path, entry in self.before.items() if path.startswith(b"all/")}

    # MARK: check, du, repair

    def check(self):
        key = self.templates.vault + b"/key"
        status, rows = self.forge("check", self.tree.root, "--key-file", key)
        self.unchanged("check changed")
        findings = {row["path"]: row for row in rows if row["type"] == "finding"}
        if not any(not is_directory(entry) for entry in self.source.values()):
            return self.expect(status == 4, "check of a tree without files", self.last)
        expected = {
            shown(path)
            for path, entry in self.source.items()
            if not is_directory(entry) and self.tree.role(path) not in ("internal", "marker")
        }
        self.expect(
            findings.keys() == expected,
            "check lists other files",
            expected - findings.keys(),
            findings.keys() - expected,
        )
        summary = self.summary(rows)
        self.expect(
            summary.get("checked", 0) + summary.get("skipped", 0) == len(expected),
            "check counts",
            summary,
            len(expected),
        )
        damaged = {path for path, row in findings.items() if row["state"] == "damaged"}
        self.damaged = damaged
        self.expect(status == (1 if damaged or summary.get("unverified") else 0), "status of check", self.last, damaged)
        self.expect(
            {shown(path) for path in self.tree.damage} <= damaged, "check misses damage", self.tree.damage, damaged
        )
        for path, entry in self.source.items():
            role, row = self.tree.role(path), findings.get(shown(path))
            if role in ("log", "vault", "key", "entry") and path not in self.tree.damage and row:
                self.expect(row["state"] == "intact", "check of a whole store", row)
            if role == "log" and path not in self.tree.damage and row:
                states = self.tree.keys[path.rpartition(b"/")[0]]
                counts = {"%d key%s" % (len(state), "" if len(state) == 1 else "s") for state in states}
                self.expect(row["details"][0] in counts, "check counts keys", row, counts)

    def disk_usage(self):
        status, rows = self.forge("du", self.tree.root)
        self.unchanged("du changed")
        summary = self.summary(rows)
        regular = [entry for entry in self.source.values() if is_regular(entry)]
        # A file with several hard links occupies the device once.
        space = 512 * sum({entry.inode: entry.blocks for entry in regular}.values())
        self.expect(status == 0, "status of du", self.last)
        self.expect(
            (summary.get("files"), summary.get("bytes"), summary.get("space"))
            == (len(regular), sum(entry.size for entry in regular), space),
            "du counts",
            summary,
        )
        kinds = {row["path"]: row["kind"] for row in rows if row["type"] == "store"}
        for directory, kind in self.tree.stores.items():
            if any(is_regular(entry) and path.rpartition(b"/")[0] == directory for path, entry in self.source.items()):
                text = {
                    "files": "file store",
                    "values": "storage of values",
                    "images": "image cache",
                    "unknown": "unknown store",
                    "key-value": "key-value store",
                }.get(kind, kind)
                self.expect(
                    kinds.get(shown(directory)) == text, "du of a store", directory, kind, kinds.get(shown(directory))
                )

    def repair(self):
        tree = self.tree
        key = self.templates.vault + b"/key"
        if not any(not is_directory(entry) for entry in self.source.values()):
            return
        self.forge("repair", tree.root, "--dry-run", "--key-file", key)
        self.unchanged("repair --dry-run changed")
        status, rows = self.forge("repair", tree.root, "--key-file", key)
        before, after = self.before, manifest(self.scratch)
        items = {row["path"]: row for row in rows if row["type"] == "item"}
        summary = self.summary(rows)
        failed = [row for row in items.values() if row["action"] == "fail"]
        self.expect(
            (summary.get("damaged"), summary.get("failed")) == (len(items), len(failed)),
            "repair counts",
            summary,
            items,
        )
        self.expect(bool(failed) == (status != 0) and status in (0, 2, 5), "status of repair", self.last, failed)
        allowed = set()
        for path, damage in tree.damage.items():
            row = items.get(shown(path))
            self.expect(row is not None, "repair misses damage", path, damage)
            directory = path.rpartition(b"/")[0]
            inside = b"all/" + (directory + b"/" if directory else b"")
            if damage == "log":
                inodes = [entry.inode for other, entry in before.items() if other != b"all/" + path]
                linked = self.source[path].inode in inodes
                action = "fail" if linked or self.is_kept(path) else "repair"
                self.expect(row is None or row["action"] == action, "repair of a log", row, linked)
                own = {inside + name for name in (b"log", b"#lock", b"#reserve", b"#shared")}
                new = {other for other in after.keys() - before.keys() if other.rpartition(b"/")[0] + b"/" == inside}
                allowed |= own | {other for other in new if other[len(inside) :].startswith(b"quarantine-")}
            elif damage == "exposed" and not self.is_kept(path):
                allowed |= {b"all/" + path}
                self.expect(row is None or row["action"] == "repair", "repair of a key", row)
                self.expect(after[b"all/" + path].mode == 0o600, "the mode of a key", path)
            else:
                moved = [
                    other
                    for other, entry in after.items()
                    if entry.inode == self.source[path].inode and other.startswith(inside + b"quarantine/quarantine-")
                ]
                is_moved = row is not None and row["action"] == "set-aside"
                self.expect(is_moved == (len(moved) == 1 and b"all/" + path not in after), "set aside", row, moved)
                if is_moved:
                    self.expect(
                        moved and content(after[moved[0]]) == content(self.source[path]), "set aside otherwise", row
                    )
                    allowed |= {b"all/" + path, inside + b"quarantine", *moved}
        for path in before.keys() | after.keys():
            if before.get(path) == after.get(path) or path in allowed:
                continue
            first, second = before.get(path), after.get(path)
            if first and second and is_directory(first) and is_directory(second):
                if any(other.startswith(path + b"/") for other in allowed) and first.mode == second.mode:
                    continue
            if first and second and first._replace(mode=0o600) == second and self.is_key_file(path):
                # A key file that others may read gets mode 0600, also as a file outside of all stores.
                continue
            self.expect(False, "repair changed", path, first, second)
        self.reread()
        for path, damage in list(tree.damage.items()):
            row = items.get(shown(path))
            if row and row["action"] != "fail":
                del tree.damage[path]

    def is_key_file(self, path):
        with open(self.scratch + b"/" + path, "rb") as file:
            if file.read(8) != Templates.read(self.templates.vault + b"/key")[:8]:
                return False
        names = [other for other, entry in self.before.items() if entry.inode == self.before[path].inode]
        directories = [other[4:].rpartition(b"/")[0] for other in names if other.startswith(b"all/")]
        return any(self.tree.kind(directory) in (None, "vaults") for directory in directories)

    # MARK: Lists

    def lists(self, text):
        """What `kv list` and `file list` print of every store is what was put there."""
        self.list_stores(self.tree.root, self.source, text)
        self.unchanged("a list changed, " + text)

    def list_stores(self, root, entries, text):
        for directory, states in self.tree.keys.items():
            if is_text(directory) and directory in entries or not directory:
                self.list_keys(root, directory, states, text)
        for directory, kind in self.tree.stores.items():
            if kind == "files" and (not directory or directory in entries):
                self.list_files(root, directory, entries, text)

    def list_keys(self, root, directory, states, text):
        place = os.path.join(root, directory) if directory else root
        status, rows = self.forge("kv", "list", place)
        values = {row["key"]: row.get("value") for row in rows if "key" in row}
        if states is None:
            self.tree.keys[directory] = [values]
        else:
            self.expect(
                status in (0, 1) and values in states,
                "keys of a store, " + text,
                directory,
                self.last,
                len(values),
                [len(state) for state in states],
            )

    def expected_keys(self, directory, entries):
        """The keys of a file store, by path relative to the root of the tree, less those in other stores inside it."""
        prefix = directory + b"/" if directory else b""
        others = [other + b"/" for other in self.tree.stores if other != directory and other.startswith(prefix)]
        return {
            path[len(prefix) :]
            for path, entry in entries.items()
            if path.startswith(prefix)
            and is_regular(entry)
            and is_key(path[len(prefix) :])
            and not path.startswith(tuple(others))
            and self.tree.role(path) == "app"
        }

    def expected_unlisted(self, directory, entries):
        """What a file store cannot list, as it is shown: the app's files without a key, and the outermost other stores."""
        prefix = directory + b"/" if directory else b""
        others = {other for other in self.tree.stores if other != directory and other.startswith(prefix)}
        refused = {
            path
            for path, entry in entries.items()
            if path.startswith(prefix)
            and is_regular(entry)
            and not is_key(path[len(prefix) :])
            and self.nearest(path, others) is None
            and self.tree.role(path) == "app"
        }
        stores = {other for other in others if other in entries and self.nearest(other, others) is None}
        return ({shown(path[len(prefix) :]) for path in paths} for paths in (refused, stores))

    @staticmethod
    def nearest(path, roots):
        """The nearest directory above a path that is one of the roots; None if there is none."""
        while path:
            path = path.rpartition(b"/")[0]
            if path in roots:
                return path
        return None

    def is_kept(self, path):
        """Whether a directory above has the marker of a store that is not known: nothing below it is repaired."""
        while path:
            path = path.rpartition(b"/")[0]
            prefix = path + b"/#store-" if path else b"#store-"
            markers = [other for other in self.source if other.startswith(prefix) and b"/" not in other[len(prefix) :]]
            if markers and self.tree.stores.get(path) == "unknown":
                return True
        return False

    def is_unknown(self, path):
        """Whether a path is in a store of no known kind, in which a copy changes nothing."""
        return self.tree.stores.get(self.nearest(path, self.tree.stores)) == "unknown"

    def list_files(self, root, directory, entries, text):
        place = os.path.join(root, directory) if directory else root
        status, rows = self.forge("file", "list", place)
        unlisted = {row["key"] for row in rows if row.get("unlisted")}
        listed = [row["key"].encode() for row in rows if row.get("kind") is None and not row.get("unlisted")]
        expected = self.expected_keys(directory, entries)
        self.expect(status == (2 if unlisted else 0), "status of file list, " + text, directory, self.last)
        refused, stores = self.expected_unlisted(directory, entries)
        self.expect(
            refused | stores <= unlisted, "file list is silent, " + text, directory, (refused | stores) - unlisted)
        self.expect(
            not unlisted & {shown(key) for key in expected}, "a key is not listed, " + text, directory, unlisted)
        self.expect(len(listed) == len(set(listed)), "a key is listed twice, " + text, listed)
        self.expect(
            set(listed) == expected,
            "keys of a file store, " + text,
            directory,
            set(listed) - expected,
            expected - set(listed),
        )

    # MARK: backup and restore

    def backup(self, backup, restored):
        backup, restored = self.scratch + b"/" + backup.encode(), self.scratch + b"/" + restored.encode()
        status, rows = self.forge("backup", self.tree.root, backup)
        items = {row["path"]: row for row in rows if row["type"] == "item"}
        summary = self.summary(rows)
        self.unchanged_beside(backup, "backup changed")
        if not any(not is_directory(entry) for entry in self.source.values()):
            return self.expect(status == 4, "backup of a tree without files", self.last)
        self.expect(status == (2 if items else 0), "status of backup", self.last, list(items.values())[:3])
        failed = sum(row["action"] == "fail" for row in rows if row["type"] == "item")
        skipped = sum(row["action"] == "skip" for row in rows if row["type"] == "item")
        self.expect(
            (summary.get("failed"), summary.get("skipped")) == (failed, skipped),
            "backup counts",
            summary,
            failed,
            skipped,
        )
        saved_in_backup = manifest(backup)
        again, rows = self.forge("restore", backup, restored)
        self.expect(again == 0, "status of restore", self.last)
        self.same(saved_in_backup, manifest(backup), "restore changed the backup")
        self.expect(self.summary(rows).get("files") == summary.get("files"), "restore counts", rows[-1:], summary)
        self.unchanged_beside(backup, "restore changed", restored)
        if again != 0:
            return
        found = manifest(restored)
        self.judge_restored(found, items, summary)
        self.list_stores(restored, found, "restored")
        shutil.rmtree(backup)
        shutil.rmtree(restored)

    def unchanged_beside(self, *places):
        text = [place for place in places if isinstance(place, str)][0]
        names = [os.path.basename(place) for place in places if isinstance(place, bytes)]
        after = {path: entry for path, entry in manifest(self.scratch).items() if path.split(b"/")[0] not in names}
        self.same(self.before, after, text)

    def judge_restored(self, found, items, summary):
        saved = 0
        for path, entry in self.source.items():
            role, copy, row = self.tree.role(path), found.get(path), items.get(shown(path))
            if not is_regular(entry) and not is_directory(entry):
                self.expect(copy is None and row and row["action"] == "skip", "a special file", path, row)
            elif not is_text(path):
                self.expect(copy is None and row and row["action"] == "fail", "a name that is not text", path, row)
            elif is_directory(entry):
                self.expect(
                    copy is not None and is_directory(copy) and copy.mode == entry.mode & 0o3777,
                    "a directory is lost",
                    path,
                    entry,
                    copy,
                )
            elif role == "internal":
                self.expect(copy is None, "an internal file is restored", path)
            elif role == "log":
                saved += 1
                self.expect(copy is not None, "a log is lost", path, row)
                self.expect((row is not None) == (path in self.tree.damage), "a log is listed", path, row)
            else:
                saved += 1
                self.expect(
                    copy is not None and content(copy) == content(entry), "restored otherwise", path, entry, copy, row
                )
                self.expect(row is None or shown(path) in self.damaged, "a saved file is listed", path, row)
        for path in found.keys() - self.source.keys():
            self.expect(False, "restored too much", path)
        self.expect(summary.get("files") == saved, "backup counts files", summary, saved)

    # MARK: Names

    def refused_names(self):
        """The command refuses the names that a file store reserves, and changes nothing."""
        self.reread()
        for directory in sorted(path for path, kind in self.tree.stores.items() if kind == "files")[:1]:
            place = os.path.join(self.tree.root, directory) if directory else self.tree.root
            for name in self.generator.sample([name for name in OTHERS + MARKERS if is_text(name)], 3):
                status, _ = self.forge("file", "set", "--", place, b"d0/" + name, os.devnull)
                self.expect(status not in (0,), "a reserved name is accepted", name, self.last)
            self.unchanged("a refused name changed")
