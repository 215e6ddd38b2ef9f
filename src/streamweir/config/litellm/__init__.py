"""A LiteLLM proxy's configuration, turned into ours.

The parsed YAML goes in, TOML text and notes come out; files, the environment and the network are
not touched. Every setting of the old file is either in the new one or in a note that names its
place: what is taken is taken out of the tree (`tree.Branch`), and what is left is told. A secret
that stood in the old file is in neither: the new one names a variable for it.
"""

from streamweir.config.litellm.translate import Translation, translate
from streamweir.config.litellm.tree import NotATree, Note

__all__ = ["NotATree", "Note", "Translation", "translate"]
