"""`python -m tests.harness`."""

import sys

from quarterdeck.cli.collector import relax_collector

from .command import main

relax_collector()
sys.exit(main())
