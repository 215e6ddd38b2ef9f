"""What the processes of all nodes know about the health of targets and of the keys of providers."""
