"""The checker of a running system: a workload through the public API, its history, and a judge of histories.

The judge shares no code with the services: it has its own idea of what each guarantee of docs/guarantees.md says.
"""
