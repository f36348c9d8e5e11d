"""The protocol description: JSON Schema, AsyncAPI, OpenAPI, TypeScript types and tables of docs/api.md.

All of it is made from the Python types of the protocol. `python -m deploy.protocol` writes the files; a test fails
when one of them is out of date.
"""
