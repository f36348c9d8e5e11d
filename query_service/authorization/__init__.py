"""Who a user is and what they may do: identities, the access file, entitlements. Pure."""
