"""The pure core: plain values and functions. No Django, no clock, no randomness, no I/O."""
