"""A node for good: node.py FOLDER [SAFE_MS]"""

import sys

from headtail_mcu.assembly import main

main(sys.argv[1], safe_ms=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
