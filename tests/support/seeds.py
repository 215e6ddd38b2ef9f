"""The four services' own documents, where they lie beside the project."""

import os
from pathlib import Path

SEEDS = Path(os.environ.get("STREAMWEIR_SEEDS") or Path(__file__).parents[3] / "shared" / "seeds")
WHY_NO_SEEDS = f"no documents at {SEEDS} (set STREAMWEIR_SEEDS)"
