"""The OpenAI wire, and every vendor that speaks it: one decoder, one request builder, rows for the rest.

`decoder` takes frames (`chunk` reads one, `choice` and `call` remember, `finish` and `usage`
translate), `request` writes the body by a `vendor` row, `provider` puts them together.
"""

from streamweir.providers.openai.usage import read_usage as read_usage
