"""Converts the configuration of a LiteLLM proxy into ours.

The input is the parsed YAML; the output is TOML text and a report. Files, the environment and the network are not used.
Every setting of the old file is either converted, converted with a note, or not converted with a reason (`report`). A
secret of the old file is in neither output: the new file refers to an environment variable instead.
"""

from streamweir.config.litellm.report import Note, merge_notes
from streamweir.config.litellm.translate import Translation, translate
from streamweir.config.litellm.tree import NotAConfiguration

__all__ = ["NotAConfiguration", "Note", "Translation", "merge_notes", "translate"]
