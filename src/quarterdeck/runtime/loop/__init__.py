"""The event loop's tools: clock, back-off, deadlines, time slices, work elsewhere, what blocks it."""
