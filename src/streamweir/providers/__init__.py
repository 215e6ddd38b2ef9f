"""One package or module per upstream protocol: requests out, events in. Independent of the caller's API."""
