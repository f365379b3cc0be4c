"""The planner's process."""

from __future__ import annotations

from fencing.client import Planner
from fencing.demo.actor import Verbs, serve


def cast(base_url: str, key: str) -> Verbs:
    """What a planner can be told to do: its client's own calls."""
    planner = Planner(base_url, key)
    return {
        "open_run": planner.open_run,
        "propose": planner.propose,
        "restart": planner.restart,
        "replay": planner.replay,
        "open_fork": planner.open_fork,
        "reconcile": planner.reconcile,
        "get_step": planner.get_step,
        "wait_decided": planner.wait_decided,
        "signing_keys": planner.signing_keys,
    }


if __name__ == "__main__":
    serve(cast)
