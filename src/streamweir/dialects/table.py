"""The dialects by name."""

from streamweir.dialects.aivene import AIVENE
from streamweir.dialects.base import Dialect
from streamweir.dialects.bitseek import BITSEEK
from streamweir.dialects.openai import OPENAI
from streamweir.dialects.opentoken import OPENTOKEN

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (OPENAI, OPENTOKEN, AIVENE, BITSEEK)}
