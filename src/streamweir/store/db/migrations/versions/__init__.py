"""One file per revision, never changed once it was released."""
