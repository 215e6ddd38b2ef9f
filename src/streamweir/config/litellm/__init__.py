"""Converts the configuration of a LiteLLM proxy into ours.

The input is the parsed YAML; the output is TOML text and notes. Files, the environment and the network are not used.
Every setting of the old file is either in the new one or in a note with its path: converted settings are removed from
the tree (`tree.Branch`), and the remaining ones are reported. A secret of the old file is in neither output: the new
file refers to an environment variable instead.
"""

from streamweir.config.litellm.translate import Translation, translate
from streamweir.config.litellm.tree import NotAConfiguration, Note

__all__ = ["NotAConfiguration", "Note", "Translation", "translate"]
