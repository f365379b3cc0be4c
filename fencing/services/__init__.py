"""Use cases: one noun a file. Each owns its transaction, reads the database's clock once and writes the audit."""
