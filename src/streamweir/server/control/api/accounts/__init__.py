"""Who pays, and what for: workspaces, keys, credit, payments, prices."""
