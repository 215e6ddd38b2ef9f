"""The operator's file: its types and how it is read."""
