"""`quarterdeck dashboard`, and the page of `quarterdeck up`."""
