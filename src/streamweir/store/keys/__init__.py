"""Keys, workspaces, credit and sessions as operators manage them, and the audit log of that."""
