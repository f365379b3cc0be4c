"""Reads for pages and API: frozen rows, keyset pages and counts."""
