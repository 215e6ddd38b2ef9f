"""`make test-agents` runs what is here: it installs the agents and says where they are."""

import os

from support.agent_process import NAME

collect_ignore_glob = [] if NAME in os.environ else ["test_*.py"]
