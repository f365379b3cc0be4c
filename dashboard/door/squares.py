"""The square that an authenticator's camera reads, as the path of one drawing: no style, no data address."""

from __future__ import annotations

import qrcode
from qrcode.constants import ERROR_CORRECT_L


def squares(text: str) -> tuple[str, int]:
    """Give the path of a text's dark squares, and the width of the whole with its margin."""
    code = qrcode.QRCode(error_correction=ERROR_CORRECT_L, border=4)
    code.add_data(text)
    code.make(fit=True)
    matrix = code.get_matrix()
    dark = (f"M{x} {y}h1v1h-1z" for y, row in enumerate(matrix) for x, is_dark in enumerate(row) if is_dark)
    return "".join(dark), len(matrix)
