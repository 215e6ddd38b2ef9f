"""Measurements. Speed is reported here and never asserted in the tests."""
