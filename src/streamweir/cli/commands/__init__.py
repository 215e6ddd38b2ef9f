"""The commands, one module for each: `command` is what `cli.main` loads. What several share is in `cli`."""
