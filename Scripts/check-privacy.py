#!/usr/bin/env python3
"""Compares each target's PrivacyInfo.xcprivacy with the "required reason" APIs that its sources call, as Apple lists them:
https://developer.apple.com/documentation/bundleresources/describing-use-of-required-reason-api"""

import pathlib
import plistlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent


def calls(*names):
    return [rf"(?<![\w.]){name}\(" for name in names]


def members(*names):
    return [rf"\.{name}\b" for name in names]


categories = {
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

failed = False
for target in sorted(path for path in (root / "Sources").iterdir() if path.is_dir()):
    files = [path for path in target.rglob("*.*") if path.suffix in (".swift", ".c", ".h") and ".docc" not in str(path)]
    # A file that only Linux compiles calls nothing that Apple lists.
    texts = [path.read_text() for path in files]
    code = re.sub(r"//.*", "", "\n".join(text for text in texts if not text.startswith("#if defined(__linux__)")))
    used = {name for name, patterns in categories.items() if any(re.search(pattern, code) for pattern in patterns)}
    manifest = target / "PrivacyInfo.xcprivacy"
    content = plistlib.loads(manifest.read_bytes()) if manifest.exists() else {}
    types = content.get("NSPrivacyAccessedAPITypes", [])
    declared = {entry["NSPrivacyAccessedAPIType"].removeprefix("NSPrivacyAccessedAPICategory") for entry in types}
    if used != declared or not all(entry["NSPrivacyAccessedAPITypeReasons"] for entry in types):
        failed = True
        print(f"check-privacy: {target.name} uses {sorted(used)} and declares {sorted(declared)}", file=sys.stderr)
    elif declared:
        print(f"check-privacy: {target.name} declares {', '.join(sorted(declared))}")
sys.exit(failed)
