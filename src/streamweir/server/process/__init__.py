"""One process from its start to its end, several processes under a supervisor, and how their parts are connected."""
