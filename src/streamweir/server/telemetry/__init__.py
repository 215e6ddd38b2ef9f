"""What is logged and counted of requests and of the process, and what may be printed."""
