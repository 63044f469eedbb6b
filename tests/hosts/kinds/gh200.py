"""A Grace Hopper node as `make.py` describes it: memory of the GPU shows as a node of memory, pages
of 64 KiB.
"""

from tests.hosts.make import GH200

MACHINE = GH200
