"""Runs that are disturbed at random, and whether they end as they must; see `__main__`."""
