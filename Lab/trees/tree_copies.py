"""Judges `forge copy` on random trees; a part of `TreeCheck`."""

import collections
import os
import shutil
import stat

from manifests import content, is_directory, is_key, is_regular, manifest, shown, store_attributes
from random_trees import KEYS, OTHERS, Templates, Tree


class TreeCopies:
    """The copies of a tree, and of the file stores in it."""

    def copy(self, *words):
        status, rows = self.forge("copy", *words)
        summary = self.summary(rows)
        items = {}
        for row in rows:
            if row["type"] == "item":
                items.setdefault(row["key"], []).append(row)
                self.expect(row["action"] in ("fail", "skip", "delete"), "an item of copy", row)
        counts = collections.Counter(row["action"] for row in rows if row["type"] == "item")
        self.expect(
            (summary.get("failed", 0), summary.get("skipped", 0), summary.get("deleted", 0))
            == (counts["fail"], counts["skip"], counts["delete"]),
            "copy counts",
            summary,
            counts,
            self.last,
        )
        others = summary.get("copied", 0) + summary.get("equal", 0)
        expected = (2 if others else 1) if counts["fail"] else 2 if counts["skip"] else 0
        self.expect(status == expected, "status of copy", self.last, counts)
        return summary, items, counts

    def copies_of_tree(self):
        regular = {path: entry for path, entry in self.source.items() if is_regular(entry)}
        special = sum(not is_regular(entry) and not is_directory(entry) for entry in self.source.values())
        if not regular:
            return
        target = self.scratch + b"/c"
        words = (b"tree:" + self.tree.root, b"tree:" + target)
        options = ["--verify"] if self.generator.random() < 0.5 else []
        summary, items, counts = self.copy(*words, *options)
        self.unchanged_beside(target, "copy changed")
        copied = manifest(target)
        for path, entry in regular.items():
            if path not in copied or content(copied[path]) != content(entry):
                self.expect(
                    self.tree.role(path) == "internal" and path in copied, "not copied", path, entry, copied.get(path)
                )
        for path, entry in copied.items():
            self.expect(path in self.source or self.tree.role(path) == "internal", "copied too much", path)
            if is_directory(entry) and path in self.source:
                self.expect(
                    entry.mode == self.source[path].mode & 0o777 | 0o700, "the mode of a directory", path, entry
                )
        self.expect(counts["fail"] == 0 and counts["skip"] == special, "copy skips", counts, special, items)
        internal = sum(self.tree.role(path) == "internal" for path in regular)
        self.expect(
            len(regular) - internal <= summary.get("copied", 0) + summary.get("equal", 0) <= len(regular),
            "copied counts",
            summary,
            len(regular),
        )
        summary, items, counts = self.copy(*words)
        self.expect(
            summary.get("copied", 0) == 0 and summary.get("equal", 0) == len(regular),
            "the second copy",
            summary,
            len(regular),
        )
        self.same(copied, manifest(target), "the second copy changed")
        self.copy_over_changes(target, words, regular, special)
        shutil.rmtree(target)

    def copy_over_changes(self, target, words, regular, special):
        """`--delete` over a destination with other files, other stores and links."""
        generator, tree = self.generator, self.tree
        directories = sorted(path for path, entry in manifest(target).items() if is_directory(entry))
        added_stores = set()
        for number in range(generator.randint(0, 3)):
            directory = b"extra%d" % number
            if generator.random() < 0.5 and directories:
                directory = generator.choice(directories) + b"/" + directory
            place = target + b"/" + directory
            templates = [tree.templates.key_values[3][0], tree.templates.vault, tree.templates.files, None]
            template = generator.choice(templates)
            os.makedirs(place)
            if template:
                Tree.write(place + b"/note.txt", b"extra")
                shutil.copytree(template, place, dirs_exist_ok=True)
                added_stores.add(directory)
            else:
                Tree.write(place + b"/" + generator.choice(KEYS), b"extra")
        for _ in range(generator.randint(0, 6)):
            directory = generator.choice([b""] + directories)
            name = generator.choice(KEYS + OTHERS)
            path = Tree.join(directory, name)
            kind = tree.stores.get(directory)
            if path in self.source or os.path.lexists(target + b"/" + path) or kind in ("vaults", "images"):
                continue
            if kind == "key-value" and name in (b"#shared", b"#reserve", b"#log-new", b"#quarantine-new"):
                continue
            Tree.write(target + b"/" + path, generator.choice(tree.templates.contents))
        taken = set()
        if generator.random() < 0.3:
            # Something else has the name of a file.
            path = generator.choice(sorted(regular))
            if tree.role(path) == "app" and not self.is_unknown(path) and os.path.lexists(target + b"/" + path):
                os.unlink(target + b"/" + path)
                if generator.random() < 0.5:
                    os.symlink(self.scratch + b"/outside/sentinel", target + b"/" + path)
                else:
                    os.mkdir(target + b"/" + path)
                    taken.add(path)
        for path in sorted(regular):
            if tree.role(path) == "app" and generator.random() < 0.1 and not self.is_unknown(path):
                place = target + b"/" + path
                if os.path.isfile(place) and not os.path.islink(place):
                    Tree.write(place, b"changed in the destination")
        before = manifest(target)
        self.before = {path: entry for path, entry in manifest(self.scratch).items() if path.split(b"/")[0] != b"c"}
        summary, items, counts = self.copy(*words, "--delete", "--max-delete", "100000")
        self.unchanged_beside(target, "copy --delete changed")
        after = manifest(target)
        named = {key for key, rows in items.items() for row in rows if row["action"] in ("fail", "skip")}
        for path, entry in regular.items():
            if path in after and content(after[path])[::2] == content(entry)[::2] or tree.role(path) == "internal":
                continue
            self.expect(shown(path) in named, "copy --delete did not copy", path, entry, after.get(path))
        if taken:
            self.expect({shown(path) for path in taken} <= named, "a name that is taken is not listed", taken, items)
        kept = added_stores | {root for root in tree.unknown() if root in before or not root}
        roots = kept | tree.stores.keys()
        for path, entry in before.items():
            if not is_regular(entry) or path in regular:
                continue
            now = after.get(path)
            rows = items.get(shown(path), [])
            deleted = any(row["action"] == "delete" for row in rows)
            if self.nearest(path, roots) in kept:
                self.expect(now == entry, "a file of a kept store is changed", path, entry, now)
            elif now is not None:
                self.expect(content(now) == content(entry), "an extraneous file is changed", path, entry, now)
                is_kept = not is_key(path) or tree.role(path) != "app" or self.is_special(path)
                is_kept = is_kept or shown(path) in named and self.is_of_unmarked_store(target, path)
                self.expect(counts["fail"] > 0 or is_kept, "not deleted", path)
            else:
                self.expect(deleted and counts["fail"] == 0, "deleted without a word", path, rows)
        for store in kept:
            # A root is listed with the first file that has it as its nearest one.
            inside = [path for path, entry in before.items() if not is_directory(entry)]
            if counts["fail"] == 0 and any(self.nearest(path, roots) == store for path in inside):
                self.expect(shown(store) in named, "a kept store is not listed", store, items)
        self.expect(
            counts["delete"]
            == len([path for path, entry in before.items() if is_regular(entry) and path not in after]),
            "copy counts the deleted",
            counts,
        )
        for path, entry in before.items():
            if stat.S_ISLNK(entry.type) and path not in regular:
                self.expect(after.get(path) == entry, "a link is changed", path)
        self.expect(
            len(regular)
            >= summary.get("copied", 0) + summary.get("equal", 0) + sum(shown(path) in named for path in regular)
            >= len(regular) - sum(tree.role(path) == "internal" for path in regular),
            "copied, equal and failed",
            summary,
            len(regular),
        )

    def is_of_unmarked_store(self, target, path):
        """Whether a file has the content of a vault or key, or is beside a log, which no marker has to name."""
        with open(target + b"/" + path, "rb") as file:
            start = file.read(8)
        vaults = [Templates.read(self.templates.vault + name)[:8] for name in (b"/vault", b"/key")]
        return start in vaults or os.path.isfile(target + b"/" + Tree.join(path.rpartition(b"/")[0], b"log"))

    @staticmethod
    def is_special(path):
        name = path.rpartition(b"/")[2]
        # A file `log` may be that of a key-value store, which is never deleted.
        return name == b"log" or name.startswith((b"#tmp-", b"#trash-", b"#move-"))

    def copies_of_stores(self):
        """`copy file:` of the file stores, and of ordinary directories into a file store."""
        for directory in sorted(path for path, kind in self.tree.stores.items() if kind == "files")[:4]:
            target = self.scratch + b"/f"
            source = os.path.join(self.tree.root, directory) if directory else self.tree.root
            prefix = directory + b"/" if directory else b""
            keys = self.expected_keys(directory, self.source)
            if not keys:
                continue
            summary, items, counts = self.copy(b"file:" + source, b"file:" + target, "--verify")
            self.unchanged_beside(target, "copy file: changed")
            found = manifest(target)
            for key in keys:
                entry, copy = self.source[prefix + key], found.get(key)
                if copy is None or copy.sha256 != entry.sha256 or store_attributes(copy) != store_attributes(entry):
                    self.expect(shown(key) in items, "copy file: did not copy", directory, key, entry, copy)
            self.expect(
                summary.get("copied", 0) == len(keys) - sum(shown(key) in items for key in keys),
                "copy file: counts",
                summary,
                len(keys),
                items,
            )
            self.judge_left_out(directory, prefix, keys, items)
            status, rows = self.forge("file", "list", target)
            self.expect(
                {row["key"].encode() for row in rows} == keys - {key for key in keys if shown(key) in items},
                "keys of a copied file store",
                directory,
            )
            summary, items, _ = self.copy(b"file:" + source, b"file:" + target)
            self.expect(summary.get("copied", 0) == 0, "the second copy file:", summary)
            shutil.rmtree(target)

    def judge_left_out(self, directory, prefix, keys, items):
        """Everything else in a file store is listed, less what the store or another one inside it keeps there."""
        others = [other for other in self.tree.stores if other != directory and other.startswith(prefix)]
        for path, entry in self.source.items():
            if not path.startswith(prefix) or path[len(prefix) :] in keys or is_directory(entry):
                continue
            if self.tree.role(path) in ("internal", "marker") or any(path.startswith(other + b"/") for other in others):
                continue
            self.expect(shown(path[len(prefix) :]) in items, "copy file: left out without a word", path, entry)
        for other in others:
            inside = [above for above in others if other.startswith(above + b"/")]
            if not inside:
                self.expect(shown(other[len(prefix) :]) in items, "a store in a file store is not listed", other, items)
