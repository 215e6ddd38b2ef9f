"""What a configuration file consists of: text with positions, a schema, variables, and the files that it refers to."""
