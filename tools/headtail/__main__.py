"""`python -m headtail` is `headtail`."""

import sys

from headtail.cli import main

sys.exit(main())
