"""The scripts of the simulator, without an event loop or a clock: a request's bytes in, timed steps out.

`table` finds the script by the model's name (`parameter` parses the part after `?`). `answer` defines the content of an
answer, with `sample` for arguments and JSON; `agent` is the script for coding agents, with `conversation` and
`file_tool`. `deltas` splits the content into deltas and counts tokens; `chunk` encodes
it as OpenAI does. `delivery` defines the bytes and failures on the wire, as a sequence of steps (`step`), which
`upstream.sim` executes.
"""

from streamweir.upstream.script.step import END as END
from streamweir.upstream.script.step import Head as Head
from streamweir.upstream.script.step import Step as Step
from streamweir.upstream.script.table import MODELS as MODELS
from streamweir.upstream.script.table import SCRIPTS as SCRIPTS
from streamweir.upstream.script.table import play as play
