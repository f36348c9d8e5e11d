"""The version before this one: nodes and gateways of both serve together for one minor version.

`previous` has that version, and the commit that it is.
"""
