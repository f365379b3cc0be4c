"""The simulator (protocol, section 16): the pure core under every order of events, beside a common implementation.

`traces` has the thirty-two, `figures` counts them; `strings` tries random and all short strings of events and judges
each by the `invariants`; `forms` writes a trace so that a page can open it.
"""
