"""A planner in twenty lines; the paths vote elsewhere. Started with the name of the request that it serves."""

import os
import sys

from fencing.client import Gateway, Planner

planner = Planner(os.environ["FENCE_URL"], os.environ["FENCE_PLANNER_KEY"])
gateway = Gateway(os.environ["FENCE_URL"], os.environ["FENCE_GATEWAY_KEY"])
args = {"invoice": 9, "cents": 4200}


@gateway.guards("refund")
def refund(invoice: int, cents: int, idempotency_key: str) -> dict[str, str]:
    """Call the bank here, with this very key."""
    return {"refund_id": f"{invoice}-{cents}-{idempotency_key}"}


run = planner.open_run(sys.argv[1])
planner.propose(run.run, "refund", run.epoch, action={"tool": "refund", "args": args}, context={"ticket": 4711})
step = planner.wait_decided(run.run, "refund", run.epoch)
if step.commit is None:
    sys.exit(f"{step.phase}: {step.reason}")
print(refund(step.commit.token, **args).response)
