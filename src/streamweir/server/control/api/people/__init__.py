"""People: their logins and sessions, and what each may see and do for itself."""
