"""What the simulator plays, without a loop or a clock: a request's bytes in, timed steps out.

`table` finds the script that the model's name asks for (`parameter` reads what follows the `?`) and
plays it; `answer` is what a script says, with `sample` for arguments and JSON, and `agent` what the
script for coding agents does, with `conversation` and `file_tool`; `deltas` cuts that into deltas and
counts it; `chunk` writes it as OpenAI does; `delivery` is what then goes right or wrong on the wire; a
`step` is one thing that is done, and when. `upstream.sim` carries it out.
"""

from streamweir.upstream.script.step import END as END
from streamweir.upstream.script.step import Head as Head
from streamweir.upstream.script.step import Step as Step
from streamweir.upstream.script.table import MODELS as MODELS
from streamweir.upstream.script.table import SCRIPTS as SCRIPTS
from streamweir.upstream.script.table import play as play
