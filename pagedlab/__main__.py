"""`python -m pagedlab` is the `pagedlab` command."""

import sys

from pagedlab.cli import main

sys.exit(main())
