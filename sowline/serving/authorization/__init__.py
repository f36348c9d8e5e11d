"""Authorization: identities, the access file, entitlements. Pure."""
