"""The OpenID provider of the tests, as its user sees it: a process, its address, and what it is told to do."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Self

import httpx

from fencing.environment import Provider
from tests.live import free_port
from tests.oidc_provider import CLIENT, SECRET

PROGRAM = Path(__file__).with_name("oidc_provider.py")


@dataclass(kw_only=True, slots=True)
class LocalProvider:
    """A running provider."""

    issuer: str
    process: subprocess.Popen[str]

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Self]:
        """Start one, and stop it at the end."""
        port = free_port()
        process = subprocess.Popen([sys.executable, str(PROGRAM), str(port)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield cls(issuer=f"http://127.0.0.1:{port}", process=process)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def settings(self, *, username_claim: str = "") -> Provider:
        """Give what the environment would say of it."""
        return Provider(
            issuer=self.issuer, client_id=CLIENT, client_secret=SECRET, name="Acme", username_claim=username_claim
        )

    def is_told(self, **control: Any) -> None:
        """Tell it how to answer from now on; nothing is the right way."""
        httpx.post(f"{self.issuer}/control", json=control).raise_for_status()

    def answer_to(self, url: str, *, link: str = "It is me") -> str:
        """Open the page that a person is sent to, and give the address that one of its links leads back to."""
        page = httpx.get(url)
        assert page.status_code == 200, page.text
        (found,) = re.findall(rf'href="([^"]+)">{link}<', page.text)
        return unescape(found)
