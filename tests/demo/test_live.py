"""The demo and the twenty lines against a whole running system."""

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path as FilePath

import fencing.demo
from fencing.client import Path, Wanted
from fencing.demo.faults import CASES
from tests.live import TOP, LiveSystem, bare_environment, free_port

DEMO = FilePath(fencing.demo.__file__).parent
TWENTY = DEMO / "twenty_lines.py"


def refund(_wanted: Wanted) -> dict[str, object]:
    return {"tool": "refund", "args": {"invoice": 9, "cents": 4200}}


@contextmanager
def both_paths_serve(base_url: str, keys: Mapping[str, str]) -> Iterator[None]:
    ended = threading.Event()
    paths = [Path(base_url, keys[name]) for name in ("replica", "production")]
    threads = [
        threading.Thread(target=path.serve, args=(refund,), kwargs={"stop": ended.is_set, "wait_s": 0.5})
        for path in paths
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread, path in zip(threads, paths, strict=True):
            thread.join()
            path.close()


def test_the_demo_ends_as_it_must_can_be_played_again_and_leaves_no_key(live_system: LiveSystem) -> None:
    for _ in range(2):
        told = live_system.manage("demo").stdout
        assert told.count("as it must, ") == 13, told
        assert "NOT" not in told
        assert "demo: all 13 scenes ended as they must" in told
        assert told.count("  the same") == 13 + len(CASES), told
        assert "1 happened as committed, 1 doubled" in told
        assert "demo: each ended as it must; see " in told
    assert live_system.manage("demo", "--if-empty").stdout == ""
    query = "SELECT count(*) FROM fencing_credential WHERE name LIKE 'demo-%' AND revoked_at IS NULL"
    code = f"from django.db import connection as c; k = c.cursor(); k.execute({query!r}); print(k.fetchone()[0])"
    assert live_system.manage("shell", "-v", "0", "-c", code).stdout.strip() == "0"


def test_the_demo_needs_a_running_system(live_system: LiveSystem) -> None:
    nobody = live_system.manage("demo", "--base-url", f"http://127.0.0.1:{free_port()}", check=False)
    assert nobody.returncode == 1
    assert "Traceback" not in nobody.stderr
    assert "nobody answers at" in nobody.stderr


def test_twenty_lines_connect_a_planner(live_system: LiveSystem, live_keys: Mapping[str, str]) -> None:
    environment = bare_environment() | {
        "FENCE_URL": live_system.base_url,
        "FENCE_PLANNER_KEY": live_keys["planner"],
        "FENCE_GATEWAY_KEY": live_keys["gateway"],
        "PYTHONPATH": str(TOP),
    }
    request = f"ticket-{uuid.uuid4().hex[:8]}"

    def serve_request() -> str:
        command = [sys.executable, str(TWENTY), request]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30, check=False, cwd=os.sep
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with both_paths_serve(live_system.base_url, live_keys):
        first = serve_request()
    assert first.startswith("{'refund_id': '9-4200-")
    # Whoever retries the request uses the same run: nothing is decided or sent again.
    assert serve_request() == first


def test_the_twenty_lines_are_twenty() -> None:
    lines = [line for line in TWENTY.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= 20


def test_the_readme_shows_the_twenty_lines_as_they_are() -> None:
    assert TWENTY.read_text(encoding="utf-8") in (TOP / "README.md").read_text(encoding="utf-8")


def test_the_tools_of_the_demo_have_short_leases() -> None:
    tools = json.loads((DEMO / "tools.json").read_text(encoding="utf-8"))
    assert {tool["tool"]: tool["policy"]["lease_s"] for tool in tools} == {
        "refund": 2,
        "reverse_refund": 2,
        "hold_for_review": 2,
        "create_ticket": 2,
        "close_ticket": 2,
    }
