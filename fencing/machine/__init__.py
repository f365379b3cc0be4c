"""One machine, nothing installed but Python: embedded servers, process tree and secrets. Knows nothing of Django."""
