"""What the machine part says to the person who started it: one sentence a line, in the order of events."""

import contextlib
import sys
import time


def say(sentence: str) -> None:
    """Print `sentence` at once, also into a pipe. Where nobody can hear it (a closed pipe, a full disk) it is lost."""
    with contextlib.suppress(OSError):
        print(sentence, flush=True)


def complain(sentence: str) -> None:
    """Print an error at once."""
    print(f"error: {sentence}", file=sys.stderr, flush=True)


def seconds_since(started: float) -> str:
    """Return the time since `started` (`time.monotonic`) for a person."""
    return f"{time.monotonic() - started:.1f} s"


def address(host: str, port: int) -> str:
    """Return the address that a browser on this machine opens for a server that listens on `host`."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 (compared)
    return f"http://{name}:{port}"
