"""Mutation testing of the pure packages: `make mutants`.

cosmic-ray finds every small change that can be made to a module (a mutant): a comparison turned round, a number one
higher, a loop that never runs. Each mutant is run against the tests of the module's name. A mutant that no test
refuses, a survivor, is either equivalent to the original or shows what the tests leave out: read every one.

    python -m tests.mutants                                     all mutants of the pure packages: hours
    python -m tests.mutants --sample 100 --seed 7               a hundred, the same hundred each time
    python -m tests.mutants sowline/model/merge.py              the mutants of one module, or of a directory
    python -m tests.mutants --only sowline/model/merge.py:…     one mutant by the name that a report gave it

`mutants.py` lists mutants, `scope.py` knows the modules and which tests are theirs, `trial.py` tries one mutant.
A trial is a fork of a process that has imported the libraries, but none of our modules, and that replaces the
source of one module as it is imported: files stay as they are, so several trials run at once, next to other work.
"""
