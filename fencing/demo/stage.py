"""The stage: four actors in processes of their own, two people, and the run that a scene plays in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencing.demo.people import Auditor, OnCall

TOP = Path(__file__).resolve().parent.parent.parent
END_S = 3.0
# What an outsider's process needs of the environment: nothing that names a database, a secret or a data folder.
PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "PYTHONPATH",
    "PYTHONWARNINGS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


class ActorFault(Exception):
    """An actor met something that is neither an answer nor a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refusal that an actor was given."""

    status: int
    code: str
    detail: str
    retry_after_s: float | None
    current_epoch: int | None

    def __str__(self) -> str:
        return f"{self.status} {self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoKeys:
    """A key for each role that the play needs."""

    planner: str = field(repr=False)
    replica: str = field(repr=False)
    production: str = field(repr=False)
    gateway: str = field(repr=False)
    oncall: str = field(repr=False)
    auditor: str = field(repr=False)


class Actor:
    """One actor's process, with its own key."""

    def __init__(self, name: str, base_url: str, key: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"fencing.demo.{name}"],
            cwd=TOP,
            env={each: os.environ[each] for each in PASSED_ON if each in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._write({"base_url": base_url, "key": key})

    def do(self, verb: str, **given: Any) -> Any:
        """Have a command carried out and return its result. Raises `ActorFault` for a refusal, too."""
        answer = self.attempt(verb, **given)
        if isinstance(answer, Refusal):
            raise ActorFault(f"{self.name} was refused to {verb}: {answer} ({answer.detail})")
        return answer

    def attempt(self, verb: str, **given: Any) -> Any:
        """Have a command carried out that may be refused: then the `Refusal` is the result."""
        self._write({"do": verb, **given})
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise ActorFault(f"the process of {self.name} has ended (status {self._process.poll()})")
        answer = json.loads(line)
        if "fault" in answer:
            raise ActorFault(f"{self.name}, {verb}: {answer['fault']}")
        return Refusal(**answer["refused"]) if "refused" in answer else answer["ok"]

    def close(self) -> None:
        """End the process: its input ends, and if that is not enough it is killed."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def _write(self, message: Mapping[str, Any]) -> None:
        if self._process.stdin is None or self._process.poll() is not None:
            raise ActorFault(f"the process of {self.name} has ended (status {self._process.poll()})")
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everybody who plays."""

    planner: Actor
    replica: Actor
    production: Actor
    gateway: Actor
    oncall: OnCall
    auditor: Auditor

    @classmethod
    @contextmanager
    def set(cls, base_url: str, keys: DemoKeys) -> Iterator[Stage]:
        """Start the actors, and end them afterwards whatever happens."""
        with ExitStack() as stack:

            def actor(name: str, key: str) -> Actor:
                started = Actor(name, base_url, key)
                stack.callback(started.close)
                return started

            yield cls(
                planner=actor("planner", keys.planner),
                replica=actor("replica", keys.replica),
                production=actor("production", keys.production),
                gateway=actor("gateway", keys.gateway),
                oncall=stack.enter_context(OnCall(base_url, keys.oncall)),
                auditor=stack.enter_context(Auditor(base_url, keys.auditor)),
            )
