"""The query services behind a gateway: what each holds, which answer a request, and connections to them."""
