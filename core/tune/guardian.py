"""The process between kneescope and a server that it starts: it starts the command, and ends all of it when it is told to, or
when kneescope is gone, however that went.

It is run as a file, imports nothing of ours and is small. Its stdin is held open by kneescope alone; the end of it means that there
is no kneescope any more. Lines of JSON: in comes `{"command": ...}` and later `{"stop": true}`; out go `{"pid": ...}`,
`{"ended": exit code, "said": the end of what it printed}` when the command ends by itself, and `{"left": n, "said": ...}` as the
last.

What belongs to the command is, on Linux, every process that descends from it: whoever loses its parent gets this process in its
place (PR_SET_CHILD_SUBREAPER), in whatever group or session it is. Elsewhere it is the session that the command was started in.
"""

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

GRACE_S = 10.0
"""From asking a server to end to killing it: vLLM takes two to three seconds."""
KILLED_S = 5.0
"""What the kernel still holds after this long cannot be ended by anybody."""
TAIL_BYTES = 4096
_POLL_S = 0.05
_READ_BYTES = 65536
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = os.uname().sysname == "Linux"


class Guardian:
    """Guards one command. `grace_s`: how long its processes have to end by themselves once asked."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._selector = selectors.DefaultSelector()
        self._pid = self._output = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._tail = b""
        self._line = b""
        self._code: int | None = None
        self._told = self._orphaned = self._asked = self._cut = False
        self._wake, wake = os.pipe()
        for end in (self._wake, wake):
            os.set_blocking(end, False)
        # Handlers and not SIG_IGN, which the server would inherit. Ctrl-C and a closed terminal are for kneescope to decide about.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN or number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(0, selectors.EVENT_READ, self._hear)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)

    def run(self) -> None:
        """Until nothing of the command is left."""
        _adopt_orphans()
        while not (self._asked or self._orphaned):
            self._turn(None)
            if self._code is not None and not self._told:
                self._told = True
                self._drain()
                self._say({"ended": self._code, "said": self._said()})
        self._say({"left": self._end() if self._pid else 0, "said": self._said()})

    def _turn(self, timeout_s: float | None) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()
        self._reap()

    def _hear(self) -> None:
        data = os.read(0, _READ_BYTES)
        if not data:
            self._selector.unregister(0)
            self._orphaned = True
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "command" in said:
                self._start(said["command"])
            else:
                self._asked = True

    def _start(self, command: str) -> None:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._process = process  # kept: one that is dropped takes the exit code of a child that has ended, which then nobody learns
        self._pid = process.pid
        self._output = ours
        self._selector.register(ours, selectors.EVENT_READ, self._keep_tail)
        self._say({"pid": process.pid})

    def _keep_tail(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._output, _READ_BYTES)
            if not data:
                self._selector.unregister(self._output)
            self._keep(data)

    def _drain(self) -> None:
        """What it printed last may still stand in the pipe."""
        with suppress(BlockingIOError):
            while data := os.read(self._output, _READ_BYTES):
                self._keep(data)

    def _keep(self, data: bytes) -> None:
        self._cut = self._cut or len(self._tail) + len(data) > TAIL_BYTES
        self._tail = (self._tail + data)[-TAIL_BYTES:]

    def _said(self) -> str:
        """The end of what it printed, from the beginning of a line on: half of a secret is not known for one."""
        text = self._tail.decode("utf-8", "replace")
        return "".join(text.splitlines(keepends=True)[1:]) if self._cut else text

    def _woken(self) -> None:
        if signal.SIGTERM in os.read(self._wake, _READ_BYTES):
            self._asked = True

    def _reap(self) -> bool:
        """Take note of what has ended; whether there are children still."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def _end(self) -> int:
        """Ask all of it to end, kill what has not when the grace is over or kneescope goes meanwhile; how many are left."""
        gone_before, began = self._orphaned, time.monotonic()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGTERM)
        for pid in self._elsewhere():
            _signal(pid, signal.SIGTERM)
        while self._alive() and time.monotonic() - began < self._grace_s and self._orphaned == gone_before:
            self._turn(_POLL_S)
        began = time.monotonic()
        while self._alive() and time.monotonic() - began < KILLED_S:  # what is being started is not in the first list
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            for pid, _ in self._found():
                _signal(pid, signal.SIGKILL)
            self._turn(_POLL_S)
        return max(1, len(self._found())) if self._alive() else 0

    def _alive(self) -> bool:
        """Whether anything of the command is left. Only the kernel knows: a list of processes is read one by one, and misses who
        changes its parent meanwhile. On Linux there are children as long as there are descendants."""
        return self._reap() or (not _LINUX and bool(self._found()))

    def _elsewhere(self) -> list[int]:
        """Those in other groups than the command's own."""
        return [pid for pid, group in self._found() if group != self._pid]

    def _found(self) -> list[tuple[int, int]]:
        """Each with its group."""
        if _LINUX:
            return _descendants(os.getpid())
        return _of_session(self._pid)

    def _say(self, said: dict[str, object]) -> None:
        with suppress(OSError):  # nobody is there any more
            os.write(1, json.dumps(said).encode() + b"\n")


def _adopt_orphans() -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _table() -> Iterator[tuple[int, int, int]]:
    """Every process that is not over, with its parent and its group. Those that are over have no children any more."""
    if not _LINUX:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=False).stdout
        for line in listed.splitlines():
            pid, parent, group, state = line.split()[:4]
            if not state.startswith("Z"):
                yield int(pid), int(parent), int(group)
        return
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # state, parent and group stand behind the name, which may hold anything
            its_state, its_parent, its_group = file.read().rpartition(b")")[2].split()[:3]
            if its_state not in (b"Z", b"X"):
                yield int(name), int(its_parent), int(its_group)


def _descendants(root: int) -> list[tuple[int, int]]:
    """What descends from a process, each with its group."""
    children: dict[int, list[tuple[int, int]]] = {}
    for pid, parent, group in _table():
        children.setdefault(parent, []).append((pid, group))
    found, todo = [], [root]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += [pid for pid, _ in more]
    return found


def _of_session(session: int) -> list[tuple[int, int]]:
    """What is in a session, each with its group."""
    found = []
    for pid, _, group in _table():
        with suppress(OSError):
            if os.getsid(pid) == session:
                found.append((pid, group))
    return found


def kill_session(pid: int) -> None:
    """Kill the group of a command and all in its session: for when its guardian is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for member, _ in _of_session(pid):
        _signal(member, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    Guardian(float(sys.argv[1])).run()
