"""Ledgers that people upload: written to the data folder while they arrive, whatever their size.

Django's own handlers keep a file in memory, or in a folder for temporary files that may itself be memory.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import FileUploadHandler

from fencing.gateway.ledger_intake import ARRIVING, folder


class LedgerFile(TemporaryUploadedFile):
    """A file in the folder of ledgers; it goes when it is closed, unless it was moved by then."""

    def __init__(self, name: str, content_type: str, charset: str | None, extra: dict[str, Any] | None) -> None:
        # Closed by the handler, at the end of the request.
        file = tempfile.NamedTemporaryFile(suffix=ARRIVING, dir=folder())  # noqa: SIM115
        UploadedFile.__init__(self, file, name, content_type, 0, charset, extra)

    @property
    def place(self) -> Path:
        """Where it lies."""
        return Path(self.temporary_file_path())


class LedgerHandler(FileUploadHandler):
    """Takes the files of one request. `end` lets go of them, however the request went."""

    def __init__(self) -> None:
        super().__init__()
        self._files: list[LedgerFile] = []

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Begin with a file."""
        super().new_file(*args, **kwargs)
        name, kind = self.file_name or "", self.content_type or ""
        self._files.append(LedgerFile(name, kind, self.charset, self.content_type_extra))

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:  # noqa: ARG002 - the signature of Django
        """Write a piece; nobody else wants it."""
        self._files[-1].write(raw_data)
        return None

    def file_complete(self, file_size: int) -> LedgerFile:
        """Give the file as the form takes it."""
        file = self._files[-1]
        file.flush()
        file.seek(0)
        file.size = file_size
        return file

    def end(self) -> None:
        """Close all files: what nobody moved away is removed."""
        for file in self._files:
            file.close()
