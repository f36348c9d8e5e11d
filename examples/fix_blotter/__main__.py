"""`python -m examples.fix_blotter`: the worked example."""

from examples.fix_blotter.demo import main

main()
