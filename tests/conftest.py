"""How hard the properties are tried: repeatably in `make test`, at random and far longer in `make soak`."""

import os

from hypothesis import HealthCheck, settings

SOAKS = os.environ.get("STREAMWEIR_SOAK") == "1"

settings.register_profile("test", max_examples=100, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "soak", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("soak" if SOAKS else "test")
