"""What goes into every evidence pack: the checker, which needs nothing but Python."""
