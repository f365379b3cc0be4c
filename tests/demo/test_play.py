"""The play fails loudly where a scene, an actor or a counter is not as it must be. The fence is scripted here."""

import io
from typing import Any

import pytest

from fencing.client import FenceError
from fencing.demo import DemoKeys, NotAsItMustBe, play
from fencing.demo.scenes import SCENES, Place, Scene, scene
from tests.client.scripted import Answer, ScriptedServer

COUNTERS: dict[str, Any] = {
    "i1_divergent_commits": {"n": 0, "of": 7},
    "i4_mixed_grades": {"n": 0, "of": 0},
    "attempted_escapes": 0,
    "landed_escapes": 0,
}


@scene("right", "a", "b")
def right(_place: Place) -> tuple[str, ...]:
    """All is well."""
    return ("a", "b")


@scene("wrong", "a", "b")
def wrong(_place: Place) -> tuple[str, ...]:
    """Something is not."""
    return ("a", "c")


@scene("broken", "a")
def broken(_place: Place) -> tuple[str, ...]:
    """An actor breaks."""
    raise FenceError("it broke")


def played(server: ScriptedServer, keys: DemoKeys, *scenes: Scene) -> str:
    out = io.StringIO()
    try:
        play(server.base_url, keys, out, scenes=scenes)
    except NotAsItMustBe as fault:
        return out.getvalue() + f"raised: {fault}"
    return out.getvalue()


def test_a_play_tells_each_scene_then_the_table_then_the_counters(server: ScriptedServer, keys: DemoKeys) -> None:
    server.will(Answer(body=COUNTERS))
    told = played(server, keys, right)
    assert "1/1 right            as it must" in told
    assert "a · b" in told
    assert "/steps/refund-invoice-nine?epoch=1" in told
    assert "i1_divergent_commits  0/7" in told
    assert "i4_mixed_grades       0/0 (no data)" in told
    assert "raised" not in told
    assert server.requests[0].headers["authorization"] == "Bearer key-of-auditor"


@pytest.mark.parametrize(
    ("one", "told"), [(wrong, "wrong: expected a · b, seen a · c"), (broken, "seen FenceError: it broke")]
)
def test_a_scene_that_ends_otherwise_fails_the_play_after_the_table(
    server: ScriptedServer, keys: DemoKeys, one: Scene, told: str
) -> None:
    server.will(Answer(body=COUNTERS))
    text = played(server, keys, one, right)
    assert text.index("NOT as it must") < text.index("counters") < text.index(f"NOT AS IT MUST BE: {one.name}")
    assert told in text[text.index("raised:") :]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"i1_divergent_commits": {"n": 1, "of": 8}}, "a divergent commit"),
        ({"landed_escapes": 1}, "a landed escape"),
    ],
)
def test_a_counter_that_moved_fails_the_play(
    server: ScriptedServer, keys: DemoKeys, change: dict[str, Any], told: str
) -> None:
    server.will(Answer(body=COUNTERS), Answer(body=COUNTERS | change))
    assert told in played(server, keys, right)


def test_the_scenes_are_those_that_were_promised() -> None:
    assert [each.name for each in SCENES] == [
        "agreement",
        "divergence",
        "early dispatch",
        "timeout",
        "equivocation",
        "stale epoch",
        "replay",
        "late divergence",
        "mutated payload",
        "expired grant",
        "live grant",
        "lost answer",
        "lost branch",
    ]
    assert all(each.expected and each.tells.endswith(".") for each in SCENES)
