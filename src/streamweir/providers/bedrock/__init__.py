"""Amazon Bedrock: its ways in beside Converse, and its failures."""
