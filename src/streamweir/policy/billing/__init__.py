"""Bills, statements and payments, and the comparison with what a provider bills."""
