"""What the server itself reads and writes of the stored objects, beside what requests ask for."""
