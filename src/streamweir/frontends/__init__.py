"""The APIs that callers use, one package each. They do not depend on providers."""
