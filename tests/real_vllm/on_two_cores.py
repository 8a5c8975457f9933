"""Runs the product beside the servers that it loads, on one machine, which may be too busy for that."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ATTEMPTS = 3
STARVED = ("the client, not the server", "in clumps")
"""What void says when this machine, not the server, was the limit: late sends, or an API process that lagged behind its engine."""


async def answer_of(arguments: list[str], run_file: Path, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The result of a kneescope command that ends with one of these exit codes; its run is recorded in `run_file`, in place of any.

    Server and client share the machine with whatever else runs there: where that takes the client's CPU, void is the right answer,
    and the command is run again; a machine that stays too busy is none for this test, which is skipped.
    """
    result: dict[str, Any] = {}
    for _ in range(ATTEMPTS):
        await asyncio.to_thread(run_file.unlink, missing_ok=True)
        command = ["-m", "tui", *arguments, "--headless", "--json", "-", "--out", str(run_file)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        stdout, stderr = await process.communicate()
        print(stderr.decode())
        result = json.loads(stdout)
        if result["outcome"] != "void" or not any(words in result["message"] for words in STARVED):
            assert process.returncode in codes, stderr.decode()
            return result
    pytest.skip(f"this machine is too busy to measure on, {ATTEMPTS} times in a row: {result['message']}")
