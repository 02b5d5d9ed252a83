"""`python -m tests.harness`."""

import sys

from .command import main

sys.exit(main())
