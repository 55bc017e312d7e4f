#!/usr/bin/env python3
"""Stops one of four processes that share a store, after every system call of a fixed sequence of calls, and looks what that costs
the others: they read and write, or get a named error in time; nothing acknowledged is lost; the stopped process holds no lock of
the store when it has ended. Linux; needs ptrace(2).

    Lab/check-stopped.py FORGE_LAB [KIND...] [--every N]

FORGE_LAB is the program, best of a release build. KIND is keyValue, files, vault or cache; all by default.
"""

import argparse
import collections
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("program")
arguments.add_argument("kinds", nargs="*", default=[])
arguments.add_argument("--every", type=int, default=1, metavar="N", help="stop after every Nth call only")
options = arguments.parse_args()
kinds = options.kinds or ["keyValue", "files", "vault", "cache"]

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
TRACEME, CONT, SYSCALL, SETOPTIONS, SYSCALL_INFO = 0, 7, 24, 0x4200, 0x420E
# Threads are traced too, and system calls are told from signals.
TRACE_OPTIONS = 0x1 | 0x8
GETPPID = {"x86_64": 110, "aarch64": 173}[os.uname().machine]

GET_LIMIT, WAIT_LIMIT = 2.0, 2_500.0  # milliseconds; calls wait a second for another process
EXPECTED = ("in use", "deadline")


class Info(ctypes.Structure):
    """struct ptrace_syscall_info, as far as it is needed."""

    _fields_ = [("op", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 3), ("arch", ctypes.c_uint32),
                ("instruction", ctypes.c_uint64), ("stack", ctypes.c_uint64), ("number", ctypes.c_uint64)]


def ptrace(request, thread, data=0):
    if libc.ptrace(request, thread, None, ctypes.c_void_p(data)) < 0 and ctypes.get_errno() != 3:
        raise OSError(ctypes.get_errno(), "ptrace")


def call_number(thread):
    info = Info()
    libc.ptrace(SYSCALL_INFO, thread, ctypes.c_void_p(ctypes.sizeof(info)), ctypes.byref(info))
    return info.number if info.op == 1 else None


class Victim:
    """A process that is stopped after a number of system calls: none of its threads is resumed when it stops at the next one."""

    def __init__(self, kind, directory, stop_after):
        self.output, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.dup2(writer, 1)
            libc.ptrace(TRACEME, 0, None, None)
            os.execv(options.program, [options.program, "stopped-victim", kind, directory])
        os.close(writer)
        os.waitpid(self.process, 0)
        ptrace(SETOPTIONS, self.process, TRACE_OPTIONS)
        ptrace(SYSCALL, self.process)
        self.status, self.last, count = None, None, 0
        is_counting, number = False, 0
        while (event := self.next_stop()) is not None:
            thread, received = event
            if received == signal.SIGTRAP | 0x80:
                received = 0
                if (entered := call_number(thread)) is not None:
                    number = entered
                    is_counting = is_counting or number == GETPPID
                elif is_counting:
                    count += 1
                    if count == stop_after:
                        self.last, self.thread = number, thread
                        # The other threads reach their next calls.
                        time.sleep(0.005)
                        return
            ptrace(SYSCALL, thread, received)

    def next_stop(self):
        """The next thread that has stopped, and the signal for it; None if the process has ended."""
        while True:
            thread, status = os.waitpid(-1, 0x40000000)
            if os.WIFSTOPPED(status):
                received = os.WSTOPSIG(status)
                # SIGSTOP is that of a new thread.
                return thread, 0 if received in (signal.SIGTRAP, signal.SIGSTOP) else received
            if thread == self.process:
                self.status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
                return None

    def resume(self):
        """Lets the process run to its end."""
        ptrace(CONT, self.thread)
        while (event := self.next_stop()) is not None:
            thread, received = event
            ptrace(CONT, thread, 0 if received == signal.SIGTRAP | 0x80 else received)


def ask(observers):
    """What each observer reads and writes now; None for one that does not answer in time."""
    for observer in observers:
        observer.stdin.write("go\n")
        observer.stdin.flush()
    answers = []
    for observer in observers:
        ready, _, _ = select.select([observer.stdout], [], [], 20)
        answers.append(json.loads(observer.stdout.readline()) if ready else None)
    return answers


def locks(process):
    with open("/proc/locks") as file:
        return [line for line in file if f" {process} " in line]


def name(number):
    try:
        return names[number]
    except KeyError:
        return str(number)


names = {}
for header in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"):
    if os.path.exists(header):
        with open(header) as file:
            for line in file:
                parts = line.split()
                if len(parts) == 3 and parts[1].startswith("__NR_") and parts[2].isdigit():
                    names.setdefault(int(parts[2]), parts[1][5:])

failures = []
for kind in kinds:
    table = collections.defaultdict(collections.Counter)
    longest = {"get": 0.0, "read": 0.0, "write": 0.0}
    stop, stops = 1, 0
    while True:
        directory = tempfile.mkdtemp(prefix="stopped-")
        observers = [
            subprocess.Popen([options.program, "stopped-observer", kind, directory], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True) for _ in range(3)]
        ask(observers)
        victim = Victim(kind, directory, stop)
        last, is_stopped = victim.last, victim.last is not None
        if is_stopped:
            stops += 1
            for answer in ask(observers):
                if answer is None:
                    failures.append(f"{kind}, stop {stop} after {name(last)}: a call of another process hangs")
                    continue
                longest["get"] = max(longest["get"], answer["getMilliseconds"])
                longest["read"] = max(longest["read"], answer["readMilliseconds"])
                longest["write"] = max(longest["write"], answer["writeMilliseconds"])
                if answer["getMilliseconds"] > GET_LIMIT:
                    failures.append(f"{kind}, stop {stop} after {name(last)}: get took {answer['getMilliseconds']:.1f} ms")
                for call in ("read", "write"):
                    table[name(last)][f"{call} {answer[call].split('(')[-1].rstrip(')') if answer[call] != 'ok' else 'ok'}"] += 1
                    if answer[call] != "ok" and not any(word in answer[call] for word in EXPECTED):
                        failures.append(f"{kind}, stop {stop} after {name(last)}: {call}: {answer[call]}")
                    if answer[f"{call}Milliseconds"] > WAIT_LIMIT:
                        failures.append(f"{kind}, stop {stop} after {name(last)}: {call} took too long")
            victim.resume()
        with os.fdopen(victim.output) as file:
            said = file.read().splitlines()
        if victim.status != 0 or "done" not in said:
            failures.append(f"{kind}, stop {stop}: the stopped process ended with status {victim.status} after {said}")
        if remaining := locks(victim.process):
            failures.append(f"{kind}, stop {stop}: locks of an ended process: {remaining}")
        answers = ask(observers)
        acknowledged = [line.split()[2] for line in said if line.startswith("set victim")]
        for answer in answers:
            if answer is None or answer["read"] != "ok" or answer["write"] != "ok":
                failures.append(f"{kind}, stop {stop}: after the end: {answer}")
            elif kind != "cache" and acknowledged and answer["victim"] != acknowledged[-1]:
                failures.append(f"{kind}, stop {stop}: {acknowledged[-1]} was acknowledged, {answer['victim']} is read")
        for observer in observers:
            if held := [line for line in locks(observer.pid)]:
                failures.append(f"{kind}, stop {stop}: locks of an idle process: {held}")
            observer.stdin.close()
            observer.wait()
        shutil.rmtree(directory)
        if not is_stopped:
            break
        stop += options.every
    print(f"{kind}: {stops} stops; longest get {longest['get']:.2f} ms, read {longest['read']:.0f} ms, "
          f"write {longest['write']:.0f} ms")
    for call in sorted(table):
        print(f"    {call}: " + ", ".join(f"{n} {text}" for text, n in sorted(table[call].items())))
for failure in failures[:50]:
    print(f"check-stopped: {failure}", file=sys.stderr)
sys.exit(f"check-stopped: {len(failures)} failures" if failures else None)
