"""The log and the metrics of requests and of the process, and the sanitizing of what is printed."""
