"""Where pods go: which nodes may take them, which are best, and gangs as a whole."""
