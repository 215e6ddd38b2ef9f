"""The command line. Commands are imported when they are used."""
