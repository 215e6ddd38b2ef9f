"""The types that all other packages use: requests, events, usage, errors. It imports no other package."""
