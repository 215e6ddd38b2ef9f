"""What may be done, decided purely: who may ask, how often, where a request goes. Time and chance are handed in."""
