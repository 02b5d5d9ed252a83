"""From a syntax tree to a checked one: types, overloads, and what types cannot say."""
