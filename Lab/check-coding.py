#!/usr/bin/env python3
"""Compares ForgeCoding with programs that were written elsewhere.

    Lab/check-coding.py [--count N] [--seed S] [--json-test-suite DIRECTORY]

Random JSON numbers are read by ForgeCoding and by Python's `decimal`. Random values that ForgeCoding encodes are read by
cbor2, if it is installed (`pip install cbor2`). With the files of JSONTestSuite (`test_parsing` of nst/JSONTestSuite),
every text that must be accepted or refused is. Needs `FORGE_LAB=1 swift build --product forge-lab`.
"""

import argparse
import decimal
import os
import random
import re
import struct
import subprocess
import sys
import uuid

decimal.getcontext().prec = 2000
Decimal = decimal.Decimal


def bits(value):
    return "%x" % struct.unpack(">Q", struct.pack(">d", float("nan") if value != value else value))[0]


def random_number(source):
    def digits(count):
        return "".join(source.choice("0123456789") for _ in range(count))

    text = "-" if source.random() < 0.5 else ""
    text += "0" if source.random() < 0.2 else source.choice("123456789") + digits(source.randrange(45))
    if source.random() < 0.5:
        text += "." + digits(source.randrange(1, 45))
    if source.random() < 0.5:
        text += source.choice(["e", "E", "e+", "e-"]) + str(source.randrange(420))
    elif "." not in text and not text.endswith("0") and source.random() < 0.1:
        text += "0" * source.randrange(200)
    return text


def fits_decimal(value):
    """Whether a Decimal of Foundation has the value: 128 bits times a power of ten from -128 to 127."""
    _, digits, exponent = value.normalize().as_tuple()
    mantissa = int("".join(map(str, digits)) or "0")
    while exponent > 127 and mantissa < 2**128:
        mantissa, exponent = mantissa * 10, exponent - 1
    return mantissa < 2**128 and exponent >= -128


def number_is_right(text, line):
    kind, *found = line.split()
    exact, nearest = Decimal(text), float(text)
    shortest = Decimal(repr(nearest)) if nearest - nearest == 0 else None
    if kind == "error":
        return shortest is None or (nearest == 0 and exact != 0)
    if found[-1] != "stable":
        return False
    is_integer = text.lstrip("-").isdigit() and abs(exact) < 2**128 and text != "-0"
    if is_integer:
        return kind == "integer" and Decimal(found[0]) == exact
    if kind == "double":
        return found[0] == bits(nearest) and (shortest == exact or not fits_decimal(exact))
    return kind == "decimal" and Decimal(found[0]) == exact and found[1] == bits(nearest) and shortest != exact


def check_numbers(lab, count, seed):
    source = random.Random(seed)
    texts = [random_number(source) for _ in range(count)]
    output = subprocess.run(
        [lab, "coding", "numbers"], input="\n".join(texts) + "\n", capture_output=True, text=True, check=True).stdout
    lines = output.splitlines()
    wrong = [(text, line) for text, line in zip(texts, lines) if not number_is_right(text, line)]
    return report("numbers", count, wrong if len(lines) == count else [("lines", len(lines))])


def shown(cbor2, value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool " + str(value).lower()
    if isinstance(value, int):
        return "int %d" % value
    if isinstance(value, float):
        return "float " + bits(value)
    if isinstance(value, str):
        return "text " + value.encode().hex()
    if isinstance(value, bytes):
        return "bytes " + value.hex()
    if isinstance(value, Decimal):
        return "decimal " + format(value, "f")
    if isinstance(value, uuid.UUID):
        return "uuid " + str(value)
    if isinstance(value, cbor2.CBORTag):
        return {978307200: "since2001 ", 32: "uri "}.get(value.tag, "tag%d " % value.tag) + (
            bits(value.value) if isinstance(value.value, float) else value.value.encode().hex())
    if hasattr(value, "timestamp"):
        return "datetime %r" % value.timestamp()
    if hasattr(value, "items"):
        return "{" + ",".join(shown(cbor2, key) + ":" + shown(cbor2, item) for key, item in value.items()) + "}"
    return "[" + ",".join(shown(cbor2, item) for item in value) + "]"


def item_is_right(found, expected):
    if found == expected:
        return True
    kind, _, rest = expected.partition(" ")
    if kind == "date":
        since2001, since1970 = rest.split()
        if found.startswith("datetime "):  # To the microsecond.
            exact = struct.unpack(">d", bytes.fromhex(since1970.rjust(16, "0")))[0]
            return abs(float(found.split()[1]) - exact) < 2e-6
        return found == "since2001 " + since2001
    if kind == "decimal":
        return found.startswith("decimal ") and Decimal(found.split()[1]) == Decimal(rest)
    return kind == "uri" and found == "text " + rest


def check_values(lab, count, seed):
    try:
        import cbor2
    except ImportError:
        print("values: cbor2 is not installed", file=sys.stderr)
        return 1
    output = subprocess.run(
        [lab, "coding", "values", "--seed", str(seed), "--count", str(count)], capture_output=True, text=True,
        check=True).stdout
    wrong = []
    for line in output.splitlines():
        payload, expected = line.split("\t")
        try:
            found = shown(cbor2, cbor2.loads(bytes.fromhex(payload)))
        except Exception as error:  # pylint: disable=broad-except
            wrong.append((expected[:200], repr(error)))
            continue
        found, expected = (re.split(r"([\[\]{},:])", text) for text in (found, expected))
        if len(found) != len(expected) or not all(map(item_is_right, found, expected)):
            wrong.append(("".join(expected)[:200], "".join(found)[:200]))
    return report("values", count, wrong)


def check_texts(lab, directory):
    files = sorted(os.path.join(directory, name) for name in os.listdir(directory))
    output = subprocess.run([lab, "coding", "texts"] + files, capture_output=True, text=True, check=True).stdout
    expected = {"y": "accepted", "n": "refused"}
    # A map with a key twice is none that a type could be decoded from.
    refused = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
    wrong = []
    for line in output.splitlines():
        outcome, name = line.replace(":", " ").split()[:2]
        if name[0] == "i":
            print(line)
        elif outcome != ("refused" if name in refused else expected[name[0]]):
            wrong.append((name, line))
    return report("texts", len(files), wrong)


def report(what, count, wrong):
    print(f"{what}: {count}, wrong: {len(wrong)}")
    for case in wrong[:10]:
        print("   ", *case)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json-test-suite")
    options = parser.parse_args()
    lab = os.path.join(
        subprocess.run(
            ["swift", "build", "--show-bin-path"], env=dict(os.environ, FORGE_LAB="1"), capture_output=True, text=True,
            check=True).stdout.strip(), "forge-lab")
    failures = check_numbers(lab, options.count, options.seed) + check_values(lab, options.count // 5, options.seed)
    if options.json_test_suite:
        failures += check_texts(lab, options.json_test_suite)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
