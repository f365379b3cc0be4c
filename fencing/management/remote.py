"""Commands that need a key and an address, and nothing else: workers that can be thrown away, and pipelines.

They speak to the fence as any other client does; neither a database nor Redis has to be near.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandError

from fencing.client.chat import ChatModel
from fencing.machine.folder import DataFolder

KEY: Final = "FENCE_KEY"
URL: Final = "FENCE_URL"
HOW: Final = f"The key stands in the variable {KEY}, never on the command line, which everybody can read."
MODEL_KEY: Final = "FENCE_MODEL_KEY"
MODEL_HOW: Final = f"A key of the model's server, where it wants one, stands in {MODEL_KEY}."


def add_address(parser: ArgumentParser) -> None:
    """Add where the fence is."""
    told = f"address of the fence (default: the variable {URL}, else the `up` of this data folder)"
    parser.add_argument("--base-url", help=told)


def be_quiet() -> None:
    """Leave the lines of the HTTP library out: what a command prints is read by programs."""
    logging.getLogger("httpx").setLevel(logging.WARNING)


def address_of(options: dict[str, Any]) -> str:
    """Where the fence is. Raises `CommandError` where nobody said so."""
    named = options["base_url"] or os.environ.get(URL)
    address = named or DataFolder(path=Path(settings.FENCE_DATA)).read_run().get("address")
    if not address:
        raise CommandError(f"where is the fence? Name it with --base-url, or in the variable {URL}")
    return str(address)


def key_of() -> str:
    """The key that says who asks. Raises `CommandError` where there is none."""
    key = os.environ.get(KEY)
    if not key:
        raise CommandError(f"there is no key. {HOW}")
    return key


def add_model(parser: ArgumentParser) -> None:
    """Add which model is asked, and where."""
    parser.add_argument("--endpoint", required=True, metavar="URL", help="OpenAI-compatible, as http://host:port/v1")
    parser.add_argument("--model", required=True, help="the model's name, as its server knows it")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="of one model call (default 60)")


def model_of(options: dict[str, Any]) -> ChatModel:
    """The model that the options name. Raises `CommandError` where the endpoint is no address."""
    be_quiet()
    key = os.environ.get(MODEL_KEY) or None
    try:
        return ChatModel(options["endpoint"], options["model"], key=key, timeout_s=options["timeout"])
    except ValueError as fault:
        raise CommandError(str(fault)) from fault


def until_told() -> Callable[[], bool]:
    """Give a function that says whether Ctrl-C or SIGTERM came: what is at hand is finished first."""
    told = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: told.set())
    return told.is_set
