import os
from pathlib import Path

import pytest

from fencing.demo.stage import Actor, ActorFault, DemoKeys, Refusal
from tests.client.scripted import Answer, ScriptedServer, problem


def pid_of(actor: Actor) -> int:
    return actor._process.pid  # noqa: SLF001 - a test looks at the process from outside


def test_an_actor_is_a_process_with_a_key_that_stands_on_no_command_line(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("FENCE_SECRET_KEY", "secret")
    server.will(Answer(status=201, body={"run": "r", "epoch": 1, "counter": 1}))
    actor = Actor("planner", server.base_url, "key-of-planner")
    try:
        assert actor.do("open_run", run="r")["epoch"] == 1
        assert server.requests[0].headers["authorization"] == "Bearer key-of-planner"
        process = Path(f"/proc/{pid_of(actor)}")
        assert pid_of(actor) != os.getpid()
        assert b"key-of-planner" not in (process / "cmdline").read_bytes()
        assert b"secret" not in (process / "environ").read_bytes()
    finally:
        actor.close()
    assert not process.exists()


def test_a_refusal_is_a_result_where_it_was_looked_for_and_a_fault_where_not(server: ScriptedServer) -> None:
    server.will(problem(409, "stale_epoch", current_epoch=2))
    actor = Actor("replica", server.base_url, "key-of-replica")
    try:
        refused = actor.attempt("vote", run="r", step="s", epoch=1, abstain="x")
        assert isinstance(refused, Refusal)
        assert (str(refused), refused.current_epoch) == ("409 stale_epoch", 2)
        with pytest.raises(ActorFault, match="409 stale_epoch"):
            actor.do("vote", run="r", step="s", epoch=1, abstain="x")
    finally:
        actor.close()


def test_an_actor_that_has_ended_is_told() -> None:
    actor = Actor("gateway", "http://127.0.0.1:9", "key-of-gateway")
    actor.close()
    with pytest.raises((ActorFault, ValueError)):
        actor.attempt("bank")


def test_the_keys_of_a_play_are_not_printed(keys: DemoKeys) -> None:
    assert "key-of" not in repr(keys)
