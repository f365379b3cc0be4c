"""The demo: a planner, a replica, a production path and a gateway play invoice nine over HTTP.

Each is a process of its own with a key of its own; they know the fence's address and nothing else of the system.
"""

from fencing.demo.play import NotAsItMustBe, Played, play
from fencing.demo.stage import DemoKeys

__all__ = ["DemoKeys", "NotAsItMustBe", "Played", "play"]
