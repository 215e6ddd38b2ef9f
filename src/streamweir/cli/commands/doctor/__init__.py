"""`streamweir doctor`: what a gateway needs, tried from this machine."""
