"""Many gateways at once, also in other processes: no Django here, for what a process starts with is imported anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.playing import Player, Reply


def admit_from_a_process(player: Player, token: str, threads: int) -> list[Reply]:
    """Ask for admission from so many threads of this process at once."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(partial(_admit, player, token), range(threads)))


def _admit(player: Player, token: str, _number: int) -> Reply:
    body = {"token": token, "action": {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}}
    return player.send({"as": "gateway", "call": "POST /gateway/admissions", "body": body})
