"""All limits on the size of generated code: what exceeds one is compiled in another way, or refused with the number.

What is refused could be compiled, in minutes or hours, into C of hundred thousands of lines.
"""

TERMS = 4
"""Products that an element-wise product of sums is multiplied out into; more are computed point by point."""
PRODUCTS = 16
"""Products that any product of sums is multiplied out into."""
CASES = 24
"""Cases of a product: the ways in which its operands are stored, multiplied out."""
PIECES = 32
"""Pieces of a set whose alternatives are multiplied out."""
STATEMENTS = 150
"""Statements of a kernel."""
OPERANDS = 100
"""Operands of a statement that store coordinates."""
FACTORS = 24
"""Factors of a product that store coordinates."""
SUMS = 12
"""Sums one in another."""
SHARED_REGIONS = 8
"""Regions that several parts of a value have in common, each asked for at the points of a computed pattern."""
CUTS, CUTS_OF_INDEX = 24, 3
"""Ways to cut a program that is computed in blocks, and places where one index is cut, that are compared."""
BLOCKS_OF_WORK = 1 << 17
"""Of more blocks of work than these some are drawn, to see what share of them has something to do."""
BODY = 200
"""Parts of the body of a function that is written out to see where its result may differ from that of the fills."""
