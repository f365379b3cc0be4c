"""A scoring worker that sends as badly as it can: doubled, delayed, shuffled. Started by path, and killed at random.

It notes each fragment before it sends it, and afterwards what was answered. A fragment's score is its epoch, so that
the mean of a grade tells whether it is of one.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fencing.client.calls import Call
from fencing.client.marker import Scorer


def main(lane: str, log: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test's dice
    late: list[dict[str, object]] = []
    with Scorer(os.environ["FENCE_URL"], os.environ["FENCE_KEY"]) as scorer, Path(log).open("a", buffering=1) as notes:
        while True:
            taken = [
                {"attempt": each.attempt, "epoch": each.epoch, "seq": each.seq, "score": each.epoch, "body": log}
                for each in scorer.lease(lane, limit=25)
            ]
            held = [each for each in taken if chance.random() < 0.15]
            now = [each for each in taken if each not in held]
            now += [each for each in now if chance.random() < 0.2]
            while late and chance.random() < 0.5:
                now.append(late.pop(chance.randrange(len(late))))
            late += held
            chance.shuffle(now)
            if now:
                notes.write(json.dumps({"sent": now}) + "\n")
                call = Call(method="POST", path="/fragments", body={"items": now})
                answer = scorer.run(scorer.asked(call))
                notes.write(json.dumps({"answered": answer["results"]}) + "\n")
            else:
                time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
