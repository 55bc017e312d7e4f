#!/usr/bin/env python3
"""Prints the manual page forge(1), made from the help texts of the command.

    Scripts/make-manual.py .build/debug/forge > forge.1
    man ./forge.1
"""
import json
import subprocess
import sys

def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def paragraphs(text):
    for paragraph in (text or "").split("\n\n"):
        if paragraph.strip():
            yield ".Pp\n" + escaped(paragraph.strip())


def name(argument):
    names = argument.get("names", [])
    shown = [("--" if n["kind"] == "long" else "-") + n["name"] for n in names]
    value = argument.get("valueName")
    if argument["kind"] == "positional":
        return "<%s>" % value
    return ", ".join(shown) + (" <%s>" % value if argument["kind"] == "option" else "")


def synopsis(argument):
    if argument["kind"] == "positional":
        text = "<%s>" % argument["valueName"]
    else:
        preferred = argument["preferredName"]
        text = ("--" if preferred["kind"] == "long" else "-") + preferred["name"]
        if argument["kind"] == "option":
            text += " <%s>" % argument["valueName"]
    if argument.get("isRepeating"):
        text += " ..."
    return "[%s]" % text if argument["isOptional"] else text


def shown_arguments(command):
    return [a for a in command.get("arguments", []) if a["shouldDisplay"]]


def section(command, path):
    own = path + [command["commandName"]]
    below = [c for c in command.get("subcommands", []) if c["commandName"] != "help" and c.get("shouldDisplay", True)]
    if not below or len(path) == 0:
        if path:
            arguments = [a for a in shown_arguments(command) if a.get("preferredName", {}).get("name") not in ("help", "version")]
            yield ".Ss " + escaped(" ".join(own + [synopsis(a) for a in arguments]))
            yield escaped(command.get("abstract", ""))
            yield from paragraphs(command.get("discussion"))
            if arguments:
                yield ".Bl -tag -width 6n"
                for argument in arguments:
                    yield ".It " + escaped(name(argument))
                    yield escaped(argument.get("abstract", ""))
                yield ".El"
    for subcommand in below:
        yield from section(subcommand, own)


def main():
    dump = subprocess.run([sys.argv[1], "--experimental-dump-help"], check=True, capture_output=True, text=True)
    forge = json.loads(dump.stdout)["command"]
    version = subprocess.run([sys.argv[1], "--version"], check=True, capture_output=True, text=True).stdout.strip()
    lines = [
        ".Dd $Mdocdate$", ".Dt FORGE 1", ".Os ForgeStorage " + escaped(version), ".Sh NAME", ".Nm forge",
        ".Nd " + escaped(forge["abstract"].rstrip(".")), ".Sh SYNOPSIS", ".Nm", ".Ar verb", ".Op Ar argument ...",
        ".Sh DESCRIPTION", *paragraphs(forge.get("discussion")), ".Sh VERBS",
    ]
    lines += section(forge, [])
    print("\n".join(lines))


main()
