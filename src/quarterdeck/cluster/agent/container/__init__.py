"""One container: how it is started, limited, watched, logged; the runtimes."""
