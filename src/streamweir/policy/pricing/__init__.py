"""What a token costs, what it is sold for, and what is charged when a request goes wrong."""
