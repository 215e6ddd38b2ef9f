"""The console: the page's sources are in `web`, what is built of them in `static`."""
