"""What an expression may cost at most, and what it did cost."""
