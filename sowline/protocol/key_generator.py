"""The types of key generators, by the name that `docs/key-generators.md` gives to packages that have one."""

from sowline.commands.key_generator import Appended, KeyGenerator, Options

__all__ = ["Appended", "KeyGenerator", "Options"]
