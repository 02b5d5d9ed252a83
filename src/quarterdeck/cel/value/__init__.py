"""Values while an expression runs, and what operators make of them."""
