"""The HTTP interface below /api/v1."""
