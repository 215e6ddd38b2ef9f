"""The dashboards for Grafana, in deploy/grafana: `scripts.generate` makes the files from these declarations.

tests/deploy holds every query to the metrics that there are.
"""
