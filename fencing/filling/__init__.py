"""Filling a database with millions of realistic steps, for measuring and for looking at pages (`manage.py fill`).

Nothing is invented here about what a step's rows look like. A few dozen runs are *played* through the real services and
taken back; what they wrote is kept as *moulds*. A *cast* of a mould is a whole run with names, ids, times, amounts,
digests and tokens of its own. Casts are loaded by COPY, so that rows, audit included, are those of this very version.
"""
