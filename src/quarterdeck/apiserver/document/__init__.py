"""Documents on their way in and out: decoding, formats, depth, and the shape Go would give them."""
