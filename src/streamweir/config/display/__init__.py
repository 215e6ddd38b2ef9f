"""A configuration as it is shown: its settings with their origins, secrets masked, and what differs between two."""
