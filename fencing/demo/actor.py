"""What each actor's process does: it takes commands as lines of JSON on its standard input and answers each with one.

The first line tells where the fence is and which key is the actor's own; a key never stands on a command line. The end
of the input is the end of the actor, so none outlives the play.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, TypeAlias

from fencing.client import FenceError, Refused

Verbs: TypeAlias = Mapping[str, Callable[..., Any]]


def serve(cast: Callable[[str, str], Verbs]) -> None:
    """Be an actor until the input ends; `cast(base_url, key)` says what it can do."""
    # Ctrl-C reaches the whole group of processes; the play ends its actors in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    introduction = json.loads(sys.stdin.readline())
    verbs = cast(introduction["base_url"], introduction["key"])
    for line in sys.stdin:
        command = json.loads(line)
        answer = _answer(verbs[command.pop("do")], command)
        sys.stdout.write(json.dumps(answer, default=_plain) + "\n")
        sys.stdout.flush()


def _answer(verb: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": verb(**given)}
    except Refused as refused:
        return {
            "refused": {
                "status": refused.status,
                "code": refused.code,
                "detail": refused.detail,
                "retry_after_s": refused.retry_after_s,
                "current_epoch": refused.current_epoch,
            }
        }
    except (FenceError, OSError) as fault:
        return {"fault": f"{type(fault).__name__}: {fault}"}


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
