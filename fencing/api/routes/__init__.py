"""The calls of `/api/v1`, one noun a file: each names its roles, its form, its service or query, and its answer."""
