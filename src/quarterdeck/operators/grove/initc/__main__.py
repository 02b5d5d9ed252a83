"""``python -m quarterdeck.operators.grove.initc --podcliques=<name>:<pods> …``."""

import sys

from .program import main

sys.exit(main(sys.argv[1:]))
