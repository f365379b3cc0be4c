"""What pages show, made from plain values: pure functions, tested without a database. No HTML is written here."""
