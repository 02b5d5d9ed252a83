"""Why jobs wait: what was wrong with each place, collected and told at the end of a cycle."""
