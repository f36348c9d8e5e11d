"""The names by which key generators of other packages import their types: `docs/key-generators.md`."""
