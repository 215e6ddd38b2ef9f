"""Bytes and frames of the wire formats, independent of provider and frontend. Imports only `core`."""
