"""The APIs of the gateway, as its clients use them."""
