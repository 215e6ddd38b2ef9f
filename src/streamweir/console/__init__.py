"""The console: the sources of the page are in `web`, the built files in `static`."""
