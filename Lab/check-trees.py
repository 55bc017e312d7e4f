#!/usr/bin/env python3
"""Runs `check`, `du`, `repair`, `backup`, `restore`, `copy`, `file list` and `kv list` on random trees of stores.

    swift build -c release --product forge
    Lab/check-trees.py .build/release/forge [DIRECTORY] [--count 1000]
    Lab/check-trees.py .build/release/forge --seed 5 --first 17 --count 1 --keep    # one tree again

`trees/random_trees.py` makes a tree, and `trees/tree_check.py` judges each verb by manifests that the code under test has
no part in. The script prints the seed and the number of a tree with a violation, and ends with status 1 if there was one.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "trees"))
from random_trees import Templates  # noqa: E402
from tree_check import TreeCheck  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("forge")
parser.add_argument("directory", nargs="?")
parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
parser.add_argument("--first", type=int, default=0, help="the number of the first tree")
parser.add_argument("--count", type=int, default=1000, help="how many trees")
parser.add_argument("--keep", action="store_true", help="keep a tree with a violation, and end")
options = parser.parse_args()
forge = os.path.abspath(options.forge)


def run(*words, **arguments):
    """Runs forge; returns its status, its output and its errors."""
    result = subprocess.run([forge, *words], capture_output=True, **arguments)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def check_trees(directory):
    """Returns the number of violations."""
    print("seed %d, from %d" % (options.seed, options.first), flush=True)
    begin, violations = time.monotonic(), 0
    templates = Templates(forge, os.path.join(directory, "templates"))
    for number in range(options.first, options.first + options.count):
        scratch = os.path.join(directory, "tree")
        os.mkdir(scratch)
        check = TreeCheck(run, templates, scratch, random.Random("%d.%d" % (options.seed, number)))
        check.run()
        for violation in check.violations:
            print("FAILED: seed %d, tree %d: %s" % (options.seed, number, violation), flush=True)
        violations += len(check.violations)
        if check.violations and options.keep:
            kept = tempfile.mkdtemp(prefix="tree-")
            subprocess.run(["cp", "-a", scratch, kept], check=True)
            print("kept in", kept)
            break
        shutil.rmtree(scratch)
        if number % 100 == 99:
            print("%d trees in %.0f s" % (number + 1 - options.first, time.monotonic() - begin), flush=True)
    totals = ", ".join("%d %s" % (value, name) for name, value in TreeCheck.totals.items())
    print("%s, %d violations, in %.0f s" % (totals, violations, time.monotonic() - begin))
    return violations


with tempfile.TemporaryDirectory(dir=options.directory) as place:
    found = check_trees(place)
sys.exit(1 if found else 0)
