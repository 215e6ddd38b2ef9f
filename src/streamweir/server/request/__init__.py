"""One chat request from its head to its record: who may send it, where it is tried, what is answered."""
