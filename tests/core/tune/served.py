"""A command that is hard to end, as a server that a test starts: python tests/core/tune/served.py PORT FOLDER KIND

It writes the process id of each of its processes into a file of FOLDER, then listens. KIND: `plain` ends when it is told to,
`deaf` ignores SIGTERM, `family` has deaf children in its group, in a group of their own, in a session of their own, and one whose
parent is gone; `ends` says something and ends with exit code 7; `hush` never listens; `once` answers
one request and ends with exit code 5.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path


def note(folder: Path) -> None:
    (folder / f"pid-{os.getpid()}").touch()


def child(folder: Path, *, group: bool = False, session: bool = False, orphan: bool = False) -> None:
    done, told = os.pipe()
    if os.fork() == 0:
        if session:
            os.setsid()
        elif group:
            os.setpgid(0, 0)
        if not orphan or os.fork() == 0:
            note(folder)
            os.write(told, b".")
            while True:
                time.sleep(60)
        os._exit(0)
    os.read(done, 1)


def main() -> None:
    port, folder, kind = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if kind == "ends":
        print("on stdout", flush=True)
        print("no \x1b[31mroom", file=sys.stderr, flush=True)
        sys.exit(7)
    if kind in ("deaf", "family"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(folder)
    if kind == "family":
        child(folder)
        child(folder, group=True)
        child(folder, session=True)
        child(folder, session=True, orphan=True)
    if kind == "hush":
        while True:
            time.sleep(60)
    with socket.create_server(("127.0.0.1", port)) as listener:
        (folder / "listening").touch()
        while True:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            connection.close()
            if kind == "once":
                sys.exit(5)


if __name__ == "__main__":
    main()
