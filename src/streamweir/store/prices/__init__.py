"""Price lists: the built-in one, the newer one, and the public data set they are made from."""
