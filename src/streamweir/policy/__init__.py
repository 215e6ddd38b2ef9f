"""Pure decisions: who may call, how often, where a request goes. Time and random values are arguments."""
