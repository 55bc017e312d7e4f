#!/usr/bin/env python3
"""Runs the long checks of `forge`: backups beside a writer, damaged stores, large copies and their speed.

    swift build -c release --product forge
    Scripts/check-command.py .build/release/forge [DIRECTORY] [--only backup|repair|files|keys]

The directory should be on a real device. Every check prints its figures, and the script ends with status 1 if one fails.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("forge")
parser.add_argument("directory", nargs="?")
parser.add_argument("--only")
parser.add_argument("--scale", type=float, default=1, help="the share of the full counts")
options = parser.parse_args()
forge = os.path.abspath(options.forge)
failures = []


def expect(condition, text):
    if not condition:
        failures.append(text)
        print("FAILED:", text)


def run(*words, **arguments):
    """Runs forge; returns its status, its output, its errors, the seconds and the peak memory in MiB."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([forge, *words], stdout=output, stderr=errors, **arguments)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        output.seek(0)
        errors.seek(0)
        return process.returncode, output.read().decode(), errors.read().decode(), seconds, usage.ru_maxrss / 1024


class Writer(threading.Thread):
    """Feeds `forge copy`, which holds the store open, and replaces files: key number % 10 gets number."""

    def __init__(self, root):
        super().__init__()
        self.files = os.path.join(root, "files")
        self.stopped = False
        self.process = subprocess.Popen(
            [forge, "copy", "json:-", "kv:" + os.path.join(root, "kv")], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL)
        self.start()

    def run(self):
        number = 0
        while not self.stopped:
            lines = []
            for _ in range(100):
                number += 1
                lines.append('{"key":"%d","value":%d}\n' % (number % 10, number))
            self.process.stdin.write("".join(lines).encode())
            self.process.stdin.flush()
            path = os.path.join(self.files, str(number // 100 % 200))
            with open(path + ".new", "w") as file:
                file.write(("%d " % number) * 2000)
            os.rename(path + ".new", path)
        self.process.stdin.close()
        self.process.wait()

    def stop(self):
        self.stopped = True
        self.join()


def check_backups(directory):
    root = os.path.join(directory, "app")
    os.makedirs(os.path.join(root, "files"))
    for number in range(200):
        with open(os.path.join(root, "files", str(number)), "w") as file:
            file.write("0 " * 2000)
    writer = Writer(root)
    time.sleep(1)
    finished = killed = 0
    duration = run("backup", root, os.path.join(directory, "first"))[3]
    for number in range(max(2, int(50 * options.scale))):
        backup, restored = (os.path.join(directory, "%s%d" % (kind, number)) for kind in ("b", "r"))
        process = subprocess.Popen([forge, "backup", root, backup], stdout=subprocess.PIPE)
        if number % 2:
            time.sleep(random.uniform(0, 1.2 * duration))
            process.kill()
        process.communicate()
        status, _, errors, _, _ = run("restore", backup, restored)
        if process.returncode == -signal.SIGKILL:
            killed += 1
            expect(status in (0, 4), "restore of a killed backup: %d %s" % (status, errors))
        else:
            expect(process.returncode == 0 and status == 0, "backup %d: %d, restore %d %s" % (
                number, process.returncode, status, errors))
        if status == 0:
            finished += 1
            check_state(restored)
            shutil.rmtree(restored)
        shutil.rmtree(backup, ignore_errors=True)
    writer.stop()
    print("backup: %d finished and restored, %d killed, %.2f s each" % (finished, killed, duration))


def check_state(root):
    status, output, errors, _, _ = run("kv", "list", os.path.join(root, "kv"), "--json")
    expect(status == 0, "kv list of a restored store: " + errors)
    values = {row["key"]: row["value"] for row in map(json.loads, output.splitlines())}
    last = max(values.values(), default=0)
    for digit in range(10):
        number = last - (last - digit) % 10
        expect(values.get(str(digit)) == (number if number > 0 else None), "no state: %s" % values)
    for number in range(200):
        with open(os.path.join(root, "files", str(number))) as file:
            words = file.read().split(" ")
        expect(len(words) == 2001 and len(set(words[:-1])) == 1, "no state of file %d" % number)


def check_repairs(directory):
    count = max(10, int(10_000 * options.scale))
    lines = "".join('{"key":"key.%d","value":"value %d"}\n' % (number, number) for number in range(30))
    base = os.path.join(directory, "base")
    for _ in range(30):
        # One record each, as an app writes them.
        status = subprocess.run(
            [forge, "copy", "json:-", "kv:" + base], input=lines.encode(), stdout=subprocess.DEVNULL).returncode
        expect(status == 0, "import of the base")
        lines = lines.replace('"value ', '"value x')
    with open(os.path.join(base, "log"), "rb") as file:
        content = file.read()
    generator = random.Random(0)
    before = {}
    for number in range(count):
        store = os.path.join(directory, "stores", str(number))
        os.makedirs(store)
        data = bytearray(content)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        if number % 5 == 0:
            data = data[:generator.randrange(len(data))]
        if number % 7 == 0:
            begin = generator.randrange(len(data) + 1)
            data[begin:begin + 200] = bytes(len(data[begin:begin + 200]))
        with open(os.path.join(store, "log"), "wb") as file:
            file.write(data)
        # By its lock file a directory is recognised as that of a store.
        shutil.copy(os.path.join(base, "#lock"), store)
        before[number] = values(store)
    status, output, errors, seconds, memory = run("repair", os.path.join(directory, "stores"), "--json")
    summary = json.loads(output.splitlines()[-1])
    failed = {row["path"].split("/")[0] for row in map(json.loads, output.splitlines()) if row.get("action") == "fail"}
    _, checked, _, _, _ = run("check", os.path.join(directory, "stores"), "--json")
    damaged = {row["path"].split("/")[0] for row in map(json.loads, checked.splitlines()) if row.get("state") == "damaged"}
    expect(damaged == failed, "damaged after the repair: %s" % sorted(damaged - failed)[:10])
    for number in map(int, failed):
        expect(before[number] is None, "a readable store was not repaired: %d" % number)
    for number, known in before.items():
        if known is not None:
            after = values(os.path.join(directory, "stores", str(number)))
            lost = [key for key in known if (after or {}).get(key) != known[key]]
            expect(not lost, "store %d lost %s" % (number, lost))
    print("repair: %d stores, %d damaged, %d repaired, %d of a format that is not known, in %.1f s, %.0f MiB" % (
        count, summary["damaged"], summary["repaired"], summary["failed"], seconds, memory))


def values(store):
    """What can be read from a store; None if it cannot be opened."""
    status, output, _, _, _ = run("kv", "list", store, "--json")
    rows = [json.loads(line) for line in output.splitlines()]
    return {row["key"]: row.get("value") for row in rows} if rows or status == 0 else None


def check_files(directory):
    count = max(100, int(100_000 * options.scale))
    tree = os.path.join(directory, "tree")
    generator = random.Random(1)
    for number in range(count):
        if number % 1000 == 0:
            os.makedirs(os.path.join(tree, str(number // 1000)))
        with open(os.path.join(tree, str(number // 1000), str(number)), "wb") as file:
            file.write(generator.randbytes(4096))
    os.sync()
    times = {"cp -r": [], "file": [], "tree": []}
    peak = 0
    for attempt in range(3):
        for kind in times:
            # Nothing is removed in between: ext4 searches long for inodes while many were deleted a moment ago.
            target = os.path.join(directory, "%s-%d" % (kind, attempt))
            begin = time.monotonic()
            if kind == "cp -r":
                subprocess.run(["cp", "-r", tree, target], check=True)
                os.sync()
            else:
                status, _, errors, _, memory = run("copy", "tree:" + tree, "%s:%s" % (kind, target))
                expect(status == 0, "copy to %s: %s" % (kind, errors))
                peak = max(peak, memory)
            times[kind].append(time.monotonic() - begin)
    best = {kind: min(seconds) for kind, seconds in times.items()}
    print("copy of %d files: cp -r and sync %.2f s; file store %.2f s (%.2f x the speed), tree %.2f s (%.2f x); %.0f MiB" % (
        count, best["cp -r"], best["file"], best["cp -r"] / best["file"], best["tree"], best["cp -r"] / best["tree"], peak))
    expect(peak <= 64, "more than 64 MiB")
    for kind in ("file", "tree"):
        expect(best["cp -r"] / best[kind] >= 0.8, "slower than 0.8 x cp -r: %s" % kind)
    resume(directory, "tree:" + tree, "file:" + os.path.join(directory, "resumed"), count, best["file"])
    resume_large_file(directory)


def resume(directory, source, target, count, seconds):
    """Ends a copy by control-C in the middle, and continues it."""
    process = subprocess.Popen([forge, "copy", source, target, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(seconds / 2)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    progress = [json.loads(line) for line in output.splitlines()]
    expect(process.returncode == 130, "control-C: %d %s" % (process.returncode, errors))
    expect(any(row["type"] == "progress" for row in progress), "no progress")
    status, output, errors, seconds, memory = run("copy", source, target, "--json", "--verify")
    summary = json.loads(output.splitlines()[-1])
    expect(status == 0 and summary["verified"] == count, "resumption: %s %s" % (summary, errors))
    expect(summary["copied"] + summary["equal"] == count and summary["equal"] > 0, "resumption: %s" % summary)
    print("control-C after a half: %d were there, %d copied, %d verified in %.1f s" % (
        summary["equal"], summary["copied"], summary["verified"], seconds))


def resume_large_file(directory):
    """Kills the copy of one large file, and continues it."""
    source, target = os.path.join(directory, "large"), os.path.join(directory, "large-copy")
    os.makedirs(source)
    with open(os.path.join(source, "file"), "wb") as file:
        for _ in range(max(64, int(1024 * options.scale))):
            file.write(os.urandom(1 << 20))
    process = subprocess.Popen([forge, "copy", "tree:" + source, "tree:" + target], stdout=subprocess.DEVNULL)
    size = os.path.getsize(os.path.join(source, "file"))

    def part():
        return [entry for entry in os.scandir(target)] if os.path.isdir(target) else []

    while process.poll() is None and not any(entry.stat().st_size > size / 3 for entry in part()):
        time.sleep(0.001)
    process.kill()
    process.wait()
    left = [(entry.inode(), entry.stat().st_size) for entry in part() if entry.name.startswith("#tmp-")]
    expect(len(left) == 1, "a killed copy of a large file left %s" % left)
    status, _, errors, seconds, memory = run("copy", "tree:" + source, "tree:" + target, "--verify")
    expect(status == 0, "continuing: " + errors)
    expect([entry.inode() for entry in part()] == [inode for inode, _ in left], "the copy began anew")
    print("killed after %d of %d MiB, continued and verified in %.1f s, %.0f MiB" % (
        left[0][1] >> 20, size >> 20, seconds, memory))


def check_keys(directory):
    count = max(1000, int(1_000_000 * options.scale))
    lines = os.path.join(directory, "lines")
    with open(lines, "w") as file:
        for number in range(count):
            file.write('{"key":"key.%07d","value":"value %d"}\n' % (number, number))
    stores = [os.path.join(directory, "stores", name) for name in ("one", "two")]
    figures = []
    for words in (
        ("copy", "json:" + lines, "kv:" + stores[0]), ("copy", "kv:" + stores[0], "kv:" + stores[1]),
        ("copy", "kv:" + stores[0], "kv:" + stores[1], "--verify"),
        ("copy", "kv:" + stores[1], "json:" + os.path.join(directory, "exported")),
        ("kv", "list", stores[0]), ("backup", stores[0], os.path.join(directory, "backup")),
    ):
        status, output, errors, seconds, memory = run(*words)
        expect(status == 0, "%s: %s" % (words, errors))
        figures.append((words[:2] if words[0] == "kv" else words[:1], seconds, memory))
        print("%s of %d keys: %.1f s, %.0f MiB: %s" % (
            " ".join(words[:2]), count, seconds, memory, output.strip().splitlines()[-1]))
    # What a program needs that only opens the store.
    opened = run("kv", "get", stores[0], "key.0000000")[4]
    for words, seconds, memory in figures:
        expect(memory - opened <= 64, "%s: %.0f MiB, but opening needs %.0f" % (" ".join(words), memory, opened))
        expect(words[0] != "kv" or seconds <= max(3 * options.scale, 1), "kv list: %.1f s" % seconds)
    with open(lines) as one, open(os.path.join(directory, "exported")) as other:
        expect(one.read() == other.read(), "the exported keys differ")


def main():
    checks = {"backup": check_backups, "repair": check_repairs, "files": check_files, "keys": check_keys}
    for name, check in checks.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                check(directory)
    sys.exit(1 if failures else 0)


main()
