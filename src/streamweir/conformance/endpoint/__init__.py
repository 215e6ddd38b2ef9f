"""Rules over what was asked of an endpoint and answered: each looks at several answers together."""
