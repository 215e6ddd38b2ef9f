"""The OpenAI wire and every vendor that uses it: one decoder, one request builder, and a row per vendor.

`decoder` reads frames (`chunk` decodes one, `choice` and `call` keep state, `finish` and `usage` translate), `request`
writes the body according to a `vendor` row, `provider` combines them.
"""

from streamweir.providers.openai.usage import read_usage as read_usage
