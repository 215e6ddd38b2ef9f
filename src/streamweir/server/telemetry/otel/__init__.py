"""Traces and metrics for an OpenTelemetry collector (OTLP over HTTP)."""
