"""The vocabulary of a stream: values that every other package speaks in. Imports nothing of ours."""
