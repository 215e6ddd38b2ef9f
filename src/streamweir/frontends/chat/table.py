"""The dialects by name."""

from streamweir.frontends.chat.aivene import AIVENE
from streamweir.frontends.chat.bitseek import BITSEEK
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.openai import OPENAI
from streamweir.frontends.chat.opentoken import OPENTOKEN

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (OPENAI, OPENTOKEN, AIVENE, BITSEEK)}
