"""Messages doubled, shuffled and delayed (N2, N4): the result is that of the set, whichever came first and how often.

Every proposal and vote is sent up to three times, in any order, by several senders at once; a vote that comes before
its proposal is repeated (F6).
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tests.factories import fresh
from tests.faults.own import Own, eventually
from tests.length import long_or

STEPS: Final = long_or(60, long=5000)
SENDERS: Final = 6
REFUND: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}
OTHER: Final = {"tool": "refund", "args": {"invoice": 9, "cents": 1}}
WRITTEN: Final = {"args": {"cents": 4200.0, "invoice": 9}, "tool": "refund"}  # the same action (C4)
SAME: Final = frozenset({("committed", "agreement")})
UNLIKE: Final = frozenset({("rejected", "divergence"), ("rejected", "late_divergence")})


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """What the paths say of a step, and the ends that this may have in any order."""

    votes: tuple[tuple[str, Mapping[str, Any]], ...]
    ends: frozenset[tuple[str, str | None]]
    pinned: Mapping[str, Any] | None = None


AGREE: Final = (("replica", {"action": REFUND}), ("production", {"action": WRITTEN}))
STORIES: Final = {
    "agree": Story(votes=AGREE, ends=SAME),
    "agree with what is pinned": Story(votes=AGREE, pinned=REFUND, ends=SAME),
    "agree, and one abstained before": Story(votes=(*AGREE, ("replica", {"abstain": "No answer."})), ends=SAME),
    "diverge": Story(votes=(AGREE[0], ("production", {"action": OTHER})), ends=UNLIKE),
    "a third one diverges": Story(votes=(*AGREE, ("third", {"action": OTHER})), ends=UNLIKE),
    "one says two things": Story(
        votes=(*AGREE, ("replica", {"action": OTHER})),
        ends=frozenset({("rejected", "equivocation"), ("rejected", "late_divergence"), ("rejected", "divergence")}),
    ),
    "not what is pinned": Story(
        votes=AGREE,
        pinned=OTHER,
        ends=frozenset({("rejected", "proposal_mismatch")}),
    ),
    "one is silent": Story(votes=AGREE[:1], ends=frozenset({("proposed", None)})),
}
PLAIN: Final = {"unknown_step", "equivocation"}
Message = tuple[str, str, dict[str, Any]]


def messages_of(run: str, names: Mapping[str, str], chance: random.Random) -> list[Message]:
    """All messages of all steps, doubled and shuffled."""
    made: list[Message] = []
    for step, story_name in names.items():
        story, place = STORIES[story_name], {"run": run, "step": step, "epoch": 1}
        pinned = {} if story.pinned is None else {"action": story.pinned}
        made.append(("planner", "POST /steps", {**place, "key": step, **pinned}))
        made += [(path, "POST /votes", {**place, **said}) for path, said in story.votes]
    doubled = [message for message in made for _ in range(chance.randint(1, 3))]
    chance.shuffle(doubled)
    return doubled


def deliver(own: Own, messages: deque[Message], heard: Counter[str]) -> None:
    """Send messages until none is left; what has no step yet goes to the end of the line."""
    while True:
        try:
            actor, call, body = message = messages.popleft()
        except IndexError:
            return
        reply = own.say(actor, call, **body)
        code = reply.body.get("code")
        assert code is None or code in PLAIN, reply
        heard[str(code or reply.status)] += 1
        if code == "unknown_step":
            messages.append(message)


def test_the_result_is_that_of_the_set_in_whatever_order_and_however_often_it_comes(own: Own) -> None:
    seed = random.randrange(10**6)  # noqa: S311 - a test's dice
    print(f"seed {seed}")  # noqa: T201 - shown where the test fails
    chance, run = random.Random(seed), fresh("run")  # noqa: S311 - as above
    assert own.say("planner", "POST /runs", run=run).status == 201
    names = {f"s{number}": list(STORIES)[number % len(STORIES)] for number in range(STEPS)}
    messages, heard = deque(messages_of(run, names, chance)), Counter[str]()
    with ThreadPoolExecutor(SENDERS) as threads:
        for sending in [threads.submit(deliver, own, messages, heard) for _ in range(SENDERS)]:
            sending.result(STEPS)
    assert heard["unknown_step"], "the shuffle let no vote come before its proposal"
    assert heard["200"], "nothing came twice"
    with own.connect() as database:

        def ends() -> dict[str, tuple[str, str | None]]:
            found = database.execute(ENDS, [run]).fetchall()
            return {step: (phase, reason) for step, phase, reason in found}

        eventually(lambda: all(ends()[step] in STORIES[name].ends for step, name in names.items()), 20)
        votes = Counter(dict(database.execute(VOTES, [run]).fetchall()))
    # Each thing that was said is on record once; an abstention only where it came before the vote.
    assert votes == Counter({step: said_in(STORIES[name]) for step, name in names.items()})


def said_in(story: Story) -> int:
    return sum("action" in said for _, said in story.votes)


ENDS: Final = """
SELECT s.name, s.phase, s.reason FROM fencing_step s JOIN fencing_run r ON r.id = s.run_id WHERE r.name = %s
"""
VOTES: Final = """
SELECT s.name, count(v.digest) FROM fencing_vote v JOIN fencing_step s ON s.id = v.step_id
JOIN fencing_run r ON r.id = s.run_id WHERE r.name = %s GROUP BY 1
"""
