"""`python -m quarterdeck.cases`."""

import sys

from .command import main

sys.exit(main())
