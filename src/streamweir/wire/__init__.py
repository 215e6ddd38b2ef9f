"""Bytes and frames: how events lie on the wire, whoever wrote them. Imports `core` alone."""
