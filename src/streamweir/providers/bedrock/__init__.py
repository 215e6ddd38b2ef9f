"""Amazon Bedrock apart from its own wire (`providers.converse`): Claude through InvokeModel, the paths that are
compatible with OpenAI, the second host (`bedrock-mantle`), embeddings, and the failures of all of them."""
