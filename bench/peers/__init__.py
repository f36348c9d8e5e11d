"""The materializer compared to other systems on the same job."""

from bench.peers.comparison import CONTESTANTS, ONE, TWO, by_turns, run

__all__ = ["CONTESTANTS", "ONE", "TWO", "by_turns", "run"]
