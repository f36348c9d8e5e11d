"""Who may connect to the query service, and what each user may do."""
