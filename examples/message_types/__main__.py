"""`python -m examples.message_types`: the worked example."""

from examples.message_types.demo import main

main()
