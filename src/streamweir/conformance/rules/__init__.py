"""The rules, by group: one module for each part of an answer."""
