"""`python -m examples.blotter`: the worked example."""

from examples.blotter.demo import main

main()
