"""Manifests of trees: what is below a directory, read without the code under test, and how names are judged.

A manifest has every entry below a directory by its path in bytes: type, mode, size, SHA-256, link target, extended
attributes, inode and modification time.
"""

import collections
import hashlib
import os
import stat
import unicodedata

Entry = collections.namedtuple("Entry", "type mode size blocks sha256 target attributes inode modified")
ATTRIBUTES = b"user.forgestorage."


def manifest(root):
    """Every entry below a directory, by its path in bytes."""
    found = {}
    for directory, directories, files in os.walk(os.fsencode(root)):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            digest, target, attributes = None, None, ()
            if stat.S_ISREG(kind):
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
            if stat.S_ISLNK(kind):
                target = os.readlink(path)
            else:
                names = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user.")]
                attributes = tuple(
                    sorted((name.encode(), os.getxattr(path, name, follow_symlinks=False)) for name in names)
                )
            found[os.path.relpath(path, os.fsencode(root))] = Entry(
                kind,
                stat.S_IMODE(status.st_mode),
                status.st_size if digest else 0,
                status.st_blocks,
                digest,
                target,
                attributes,
                status.st_ino,
                status.st_mtime_ns,
            )
    return found


def is_regular(entry):
    return stat.S_ISREG(entry.type)


def is_directory(entry):
    return stat.S_ISDIR(entry.type)


def content(entry):
    """What a copy keeps of a file: its content, permissions, and the attributes that file stores have set."""
    return entry.sha256, entry.mode & 0o777, store_attributes(entry)


def store_attributes(entry):
    return tuple(pair for pair in entry.attributes if pair[0].startswith(ATTRIBUTES))


def shown(path):
    """A path as the verbs print it."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        pass
    text = ""
    while path:
        for length in range(1, 5):
            try:
                scalar = path[:length].decode("utf-8")
                break
            except UnicodeDecodeError:
                scalar = None
        if scalar and unicodedata.category(scalar) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"):
            text += "\\\\" if scalar == "\\" else scalar
            path = path[len(scalar.encode()) :]
        else:
            text += "\\x%02x" % path[0]
            path = path[1:]
    return text


def is_text(path):
    try:
        path.decode("utf-8")
        return True
    except UnicodeDecodeError:
        return False


# The code points of the names in the trees that HFS+ ignores.
IGNORED = "\u034f\u200c\u200d\ufeff\u202e\u2060"


def is_key(path):
    """Whether a path relative to the root of a file store is a key, by its documented rules."""
    if not is_text(path) or len(path) > 1024 or path.count(b"/") >= 32:
        return False
    for name in path.decode().split("/"):
        if any(ord(character) < 32 or 127 <= ord(character) < 160 or character == "\\" for character in name):
            return False
        folded = "".join(character for character in name if character not in IGNORED).upper().lower().encode()
        if folded.startswith((b"#tmp-", b"#trash-", b"#move-", b"#journal-", b"#lock", b"#store-")):
            return False
        if len(folded) > 1 and folded.startswith(b"#") and folded.endswith(b"#"):
            return False
    return True
