"""The contract with clients and operators: types of messages, reason codes, and what is made of them.

`python -m contract` writes the protocol description (JSON Schema, AsyncAPI, OpenAPI), the TypeScript types, the
tables of docs/api.md, the page of reason codes, the schemas for editors, and the settings of the chart. A test fails
when one is out of date. Nothing of it runs in a service or a client, and the wheel does not have it.
"""
