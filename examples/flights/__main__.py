"""`python -m examples.flights`: the main demo."""

from examples.flights.demo import main

main()
