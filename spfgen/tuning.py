"""All numbers by which spfgen weighs one way of running a loop against another, each with where it comes from.

None of them decides what is right: with other numbers results are the same, and only the time differs.

Where a line says `measured`, calls were timed on the machine of docs/performance.md (AMD EPYC, two virtual cores, AVX2,
gcc 12) with the experiment that the line names, on its matrices. `size` follows from a size of the hardware, which the
line gives. `estimate` is an order of magnitude, made for the experiment that the line names, if it names one. The
numbers of the runtime (rt/*.h) are written there as TUNED_NAME and put in from here. Those of the level scheduler,
which measures itself while it runs, stand in the enum at the top of rt/levels.h.
"""

# --- hardware --------------------------------------------------------------------------------------------

CACHE_LINE = 64
"""Bytes. Size: a line of the cache, on all processors that are tested."""

# --- threads ---------------------------------------------------------------------------------------------

TEAM_NS = 8192
"""Nanoseconds of work from which on the threads that a caller asks for pay. Measured, spmv: on two free cores a team
takes 1.1 of one thread's time at 8 and 16 us of work, 0.65 at 33, 0.6 from 66 on."""
TEAM_UNASKED_NS = 262144
"""The same where nobody asked for threads. What a team gains on free cores has to be worth what it loses where one of
its threads has no core. Measured, spmv with five programs on each core: 2 to 17 ms more a call, whatever the work. At
262 us, which one thread does in 39, a team saves 16 us where it does not lose a hundred times that."""
CHUNK_NS = 8192.0
"""Nanoseconds of work in each of several parts for a thread. Measured, spmv: below it a part takes longer to find than
to do."""
CHUNKS_PER_THREAD = 8
"""The most parts for each thread: one that is done early takes another. Measured, spmv with rows of all lengths."""
PART_NS = 16384.0
"""Nanoseconds of work in a part, where results must not depend on the number of threads. Estimate."""
FIXED_PARTS = 64
"""Parts of a loop whose parts do not depend on the number of threads. Estimate: a few for each core of a server."""
FIXED_COPIES = 16
"""The same where each has a copy of the target. Estimate: copies take memory, and are added up."""
COPY_NS, COPIES_NS = 28.0, 36000.0
"""Nanoseconds that a place of a copy takes to be cleared, fetched from the caches of others and added up, and what the
copies take besides. Measured, spmv with csc and coo."""
SERIAL_PLACES = 1024
"""Copies of so few places are added up faster than threads start. Estimate for spmv with csc."""
ATOMIC_PLACES, ATOMIC_THREADS = 2097152, 16
"""Places, or threads, beyond which additions are atomic. Measured, spmv with coo: an atomic addition takes about
sixteen times as long as a plain one, unless that waits for memory, too."""
SAMPLED_THREADS = 4
"""Threads that costs are compared for when C is generated. Estimate."""
LOOP_START_NS = 20
"""Nanoseconds, as those of work below: to begin a loop of unknown length, and to end it. Estimate for spmv."""
UNSPLIT_CLEARING = 4.0
"""Where an iteration clears what takes as long as so many positions, on the average of many sizes, no iteration is much
longer than the others: none is split. Estimate."""
CHECKED_PER_NS = 4
"""A plain check of index arrays looks at so many values in the time that a kernel takes for one. Estimate for
validation."""

# --- which algorithm, order and version ------------------------------------------------------------------

LOOKUP_NS = 5
"""Nanoseconds to find a position, with the algorithms that are better than comparing with all. Estimate for spmspv."""
TABLE_NS = 5
"""Nanoseconds for each position to build a table of all. Estimate, as LOOKUP_NS."""
STATEMENT_NS = 3
"""Nanoseconds to read the operands, and to add. One more iteration of a loop takes one. Estimate for spmv."""
BY_VECTORS_TENTHS, ITERATION_BY_VECTORS_TENTHS = 7, 2
"""The same in tenths where vectors do it: in loops over what lies side by side. Estimate for spmm."""
LOOP_TENTHS = 8
"""Tenths of nanoseconds for a position that a linear scan looks at. Estimate for spmspv."""
SEARCH_TENTHS, SEARCH_STEP_TENTHS = 80, 40
"""A binary search: to begin it, and each halving. Estimate for spmspv."""
TABLE_TENTHS = {
    "hash": (40, 17, 45, 120, 0),
    "array": (15, 15, 0, 120, 1),
    "bitmap": (15, 6, 20, 110, 0),
    "scatter": (15, 17, 0, 0, 1),
}
"""Tables: per position when one is built and cleared; per lookup; per hit; per hit or miss, whichever is rarer: a
branch that is not predicted; per possible key. Measured, spmspv."""
BITMAP_KEYS = 500
"""Possible keys whose bits a bitmap clears in a nanosecond. Estimate for spmspv."""
SORTED_NS = 60
"""To sort an entry of a result and to add it to others of its place, where rows do not come together. Estimate for
spgemm."""
INVERSE_TENTHS = (15, 30)
"""An inverse array: per position and per value when it is built; per lookup. Estimate for spgemm."""
STATE_TENTHS, WALK_TENTHS, STEP_TENTHS = 1, 5, 40
"""Sequential iteration: a state in an array, a position that is passed, a call. Estimate for spmspv."""
JUMP_TENTHS, GALLOP_TENTHS = 30, 45
"""Galloping: to begin it, and each doubling. Estimate for spmspv."""
SAMPLED_SIZES = 60
"""Random sizes for which costs are compared when C is generated. Estimate."""
VARIANT_GAIN = 3.0
"""How many times faster a variant must be somewhere to be worth its code. Estimate."""
FIND_VARIANTS = (3, 2)
"""Variants of one nest with one find, and with several: more would hardly be faster, and a reader has to read them."""
DRIVER_GAIN = 2.0
"""How many times less work another driver must mean, on the average of many sizes, to be taken. Estimate."""
OWNED_COST = 1.5
"""How much more work rows of a result may take that threads have to themselves, where they would add to copies of it.
Measured, conv, 99 % of zeros: 2.2 ms for 5.6 with one thread, 1.2 for 5.7 with two; 99.9 %: 1.7 for 1.3."""
PLACEMENT_GAIN = 2.0
"""How many times less work another place of a sum must mean to be taken. Estimate."""

# --- unrolling and vectors of sums -----------------------------------------------------------------------

UNROLLED = 4
"""Iterations that sums are unrolled by. Measured, spmv: one addition of four values is in time for the next four."""
UNEVENNESS = 0.15
"""By how much neighbouring segments may differ, of their sum and on the average, so that the branch at their ends is
predicted. Estimate for spmv with csc."""
PREDICTED_SEGMENTS = 256
"""Of fewer segments a processor remembers the lengths. Estimate for spmv."""
FLATTENED_SEGMENT, FLATTENED_SEGMENTS = 4, 128
"""Places of a segment, on the average, that loop flattening gains from, and segments that are marked together: their
numbers fit in a byte. Estimate for spmv with csc."""
COLLECTED = 48
"""Hits that are collected before they are used. Size: rt/collect.h has room for as many."""
VECTOR_SUM_SHORT = 16
"""Loops over values side by side that are known to be shorter are left as they are. Estimate for sddmm."""
VECTOR_SUM_LONG = 32
"""Loops that are longer have two vectors of sums. Estimate for sddmm."""
VECTOR_SUM_BYTES = 32
"""Bytes of a vector of sums. Measured, sddmm: wider ones take longer to add up in the end than they save."""
MOST_UNROLLED = 1000
"""More iterations written out take gcc minutes, and are no gain. Measured with gcc 12."""
UNROLLED_STATEMENTS = 1000
"""Statements that unrolled iterations may have: more only fill the cache of instructions. Estimate."""

MOST_CUTS = 3
"""Conditions on the index of a loop by which it is cut. Size: each may double the code."""
SPLIT_STATEMENTS = 60
"""Statements of a loop that is cut by conditions on its index. Size: they are written out for each part."""

# --- register tiles and blocks ---------------------------------------------------------------------------

TILE_BYTES = 256
"""The size of a tile: half of the vector registers of AVX2. Size; where there is more room, tiles are twice as large in
C (cir/lower/register_tile.py)."""
TILE_NEEDLESS = 16
"""Neighbours that need no tile. Estimate for spmm."""
TILE_ROUND, TILE_ROUND_FEW_TILES, TILE_MANY = 12, 48, 4
"""Iterations of the loop inside that all tiles take before the next ones, with more than so many tiles and with fewer:
what they read fits into the first cache, and the sums are in memory only so often in between. Measured, spmm."""
SPECIALIZED_WIDTH = 16
"""The smallest width that gets code of its own: with fewer places the other loops take the time. Estimate for spmm."""
BLOCK_SUMS = 16
"""Places of a dense block that may have a sum each. Size: half of the registers."""
BLOCK_VECTOR_SUMS = 64
"""Places of a dense block that may have a sum each where these are vectors. Size: 16 registers of four values."""
BLOCK_PLACES = 128
"""Places of a block of the result: with what is read beside them they take a small part of the first cache. Estimate
for spmv with dia."""

# --- prefetching -----------------------------------------------------------------------------------------

PREFETCH_ITERATIONS = 8
"""Iterations ahead. Size: about as many memory accesses as a core has on their way at once."""
PREFETCH_PLACES = 2048
"""How far ahead a stream is fetched: pages of numbers. Measured, spmv: a quarter as far takes up to a tenth longer for
4-byte numbers and as long for 8-byte ones."""
PREFETCH_VALUES = 1 << 20
"""Values of a stream that caches do not hold. Size: a second cache of 8 MB of 8-byte numbers."""
PREFETCH_SHORT = 8
"""Values of a segment that one fetch covers. Size: a line of the cache."""
PREFETCH_LONG = 24
"""Values of a segment beside which it takes little that its end is not predicted. Measured, spmv."""
PREFETCH_ROWS = 4
"""How far ahead rows are stored. Estimate for spmm."""
PREFETCH_FEW_TERMS = 7
"""Values that are added up for a row, on the average, beside which its memory counts. Estimate for spmm."""
PREFETCH_TILE_WIDTHS = 4
"""Widths of a tile: in longer rows stores are a stream of their own, which a processor foresees, ... Estimate for
spmm."""
PREFETCH_FAR_VALUES = 1 << 23
"""... unless there are so many values that they come from far away. Size: more than a third cache holds."""

# --- memory ----------------------------------------------------------------------------------------------

TRANSPOSE_ACROSS_TENTHS, TRANSPOSE_ALONG_TENTHS, TRANSPOSE_COPIED_TENTHS = 5, 1, 5
"""Tenths of nanoseconds to read a value against the grain, to read it along, to copy one. Estimate for mttkrp and
ttm."""
TRANSPOSE_NEAR = 1 << 17
"""So many values lie in the cache of a core. To read takes twice as long where there are more. Size: 1 MB."""
TRANSPOSE_MOVED_TENTHS = 40
"""What it adds to a copied value that several threads share the copy: what one has written the others must get from its
cache, and it takes it back at the next call. Estimate for mttkrp."""
TRANSPOSE_FRESH_TENTHS, TRANSPOSE_KEPT = 40, 1 << 22
"""What a value takes of memory that is new to the process. Allocators keep what is freed, but not so many values: a
copy of more than those always takes new memory. Estimate for mttkrp."""
WORKSPACE_PLACES = 1 << 22
"""A workspace with so many places is not too large, whatever is stored. Size: 32 MB."""
FORWARDING_SAMPLES = 16
"""Iterations that are looked at, about, before the last result is kept in a register. Estimate for trisolve."""
FORWARDING_MISS = -7
"""What one of them counts that needs another value, where one that needs the last counts 1. Estimate for trisolve."""

ENTRIES_EXPECTED = 16384
"""Beyond so many entries of a result memory is taken for all that are expected. Estimate for add: it is moved less."""
ENTRIES_LARGE_BYTES = 4194304
"""Memory for entries that is asked for in large pages. Measured, add: 2.5 ms for 40 MB in place of 40. Two of them."""
ENTRIES_SCARCE_BYTES = 134217728
ENTRIES_MOVED_BYTES, ENTRIES_MAPPED_BYTES = 262144, 33554432
"""From so many bytes of entries on what is moved, in pieces of such sizes, goes back to the system at once: glibc may
keep it. Larger pieces it maps. Measured, a product with a result of 154 MB, two threads: 209 MB in place of 403, in
1.05 to 1.1 of the time; a sum with one of 38 MB would take 35 ms for 19."""
ENTRIES_JOINED = 50000
"""So many entries are joined by several threads. Estimate for spgemm."""
ROW_SORTED, ROW_WORDS = 24, 2
"""A row of fewer entries is put in order by merging, others by a map of bits of at most so many words for each entry.
Measured, spgemm."""
MERGED_STREAMS = 8
"""More tensors are not merged, but added up in a workspace: a step of a merge looks at all. Estimate for add."""

# --- how much is written out --------------------------------------------------------------------------------

FUSED_NODES, FUSED_LOOP = 24, 5
"""Functions and operands of a lazy array that one kernel computes, where a product or a reduction counts as so many.
Measured, 50 x 50: kernels of twice as many take 5 to 10 s to make, two of so many take 3."""
FUSED_AT_MOST = 96
"""The same where the value of each part would take more memory than what it is computed of. Estimate."""

LATER_WORK = 100_000
"""Numbers that numpy went through, from which on a kernel that does it is compiled by another process. Estimate: some
tenths of a second of a session."""
LATER_START = 1_000
"""A call of numpy takes as long as to go through so many. Measured, arrays."""
LATER_AT_ONCE = 20_000_000
"""With so many numbers a kernel is compiled at once: numpy takes longer than a compilation. Measured, arrays."""
LATER_NICE = 5
"""How far the other process stands back."""
LATER_END = 10.0
"""Seconds for the other process to stop what it is doing, at the end."""
LATER_KNOWN = 4096
"""So many things to compile are known at once."""

PRODUCT_SMALL = 5_000
"""Products with a dense array of fewer terms are left to numpy until there is a kernel. Measured, arrays."""
MERGES = 4
"""So many merges of two tensors in one order take less time than a kernel of all. Measured, lazy arrays: `A+B-A*B` of
200,000 entries each takes 7 ms by three merges, 13 by a kernel; `2*A-B` 3.6 and 5.1."""
SORT_BY_NUMPY = 2_000
"""Fewer numbers are sorted by numpy. Measured, arrays: 5,000 take 0.1 ms there and 0.04 here, 200,000 take 30 and 9."""
SCRATCH_LEAST, SCRATCH_MOST = 1 << 16, 1 << 24
"""Bytes of memory that is used again by the next operation: fewer come from memory that Python has, more are rare, and
would be held for long. Measured, arrays: where a page that is new takes 10 microseconds, sums of matrices with 200,000
entries take 2 ms in place of 20."""

# --- checks of index arrays ------------------------------------------------------------------------------

CHECKED_SEGMENTS = 2048
"""So many segments at most are looked at together. Size: their places stay in a near cache."""
CHECKED_CHUNK = 64
"""So many values of an outer loop are given to a thread at a time. Estimate."""
VALIDATE_TINY = 64
"""Elements of index arrays up to which Python is the quickest, always. Measured, validation."""
VALIDATE_SMALL = 2_000
"""The same as long as there is no compiled check. Measured, validation."""
VALIDATE_EXACT = 4_000_000
"""Elements up to which Python is used where 64 bits may not be enough. Estimate."""
VALIDATE_COMPILED = 1_000_000
"""Elements that were checked with numpy after which it pays to have C compiled. Measured, validation: a compilation
takes some tenths of a second."""
VALIDATE_PYTHON = 20
"""An element that is checked with Python takes as long as so many with numpy. Measured, validation."""

# --- packing and conversion ------------------------------------------------------------------------------

PACK_BY_NUMPY = 20_000
"""Fewer entries are packed by a table or with numpy, until there have been many: a compilation takes longer. Measured,
conversion."""
PACK_PER_THREAD = 25_000
"""A thread for so many entries: fewer take less time than to begin with another thread. Measured, conversion."""
CONVERT_COMPILED = 1_000_000
"""Entries that were packed with numpy after which it pays to have C compiled. Measured, conversion."""
CONVERT_START = 2_000
"""To begin packing with numpy takes as long as so many entries. Measured, conversion."""
CONVERT_EMPTY_GROUPS = 64
"""More groups for each entry than this are not counted one by one. Estimate for conversion."""
CONVERT_FAR_BYTES = 12 * 2**20
"""Bytes of a result beyond which it pays to bring neighbours together first. Measured, conversion; about the size of
the third cache."""
CONVERT_BUCKET, CONVERT_BUCKETS = 12_000, 256
"""Entries of a bucket, about, and the most buckets: each needs a few lines of the cache while entries go there.
Measured, conversion."""
CONVERT_PAGE_PART = 2531
"""Bytes: the golden section of a page, so that parts begin at different places of it. Size."""
CONVERT_SPREAD, CONVERT_WINDOW, CONVERT_SAMPLES = 1021, 128, 24
"""Buckets, entries and windows of the test whether neighbours lie far apart. Estimate for conversion."""
CONVERT_MANY_APART = 50
"""Of 100 entries, how many lie far apart where it pays to use buckets. Measured, conversion."""
LARGE_ARRAY_BYTES = 2**21
"""Arrays of so many bytes are asked for in large pages. Size: one of those."""
ALIGNED_ELEMENTS = 512
"""Arrays with fewer elements lie where they come to lie. Size: a page."""

# --- programs over blocks --------------------------------------------------------------------------------

CLUSTER_TASK = 1e-3
"""Seconds of a scheduler for each task. Measured, cluster: half a millisecond to one and a half."""
CLUSTER_BYTE = 1e-9
"""Seconds to send a byte from worker to worker. Estimate: ten gigabits a second, with writing and reading."""
CLUSTER_COPY = 3e-10
"""Seconds to copy a byte of a block. Measured, cluster: dense blocks of 1 MB are joined in a third of that."""
CLUSTER_PACK = 4e-9
"""Seconds for a byte of a sparse block that is cut or joined. Measured, cluster: csr, 3 ns to read it all for a part of
its columns, 5 to 6 to join it again."""
CLUSTER_POINT = 1e-9
"""Seconds for a point of the iteration space. Estimate for cluster: an entry of a product of a matrix and a vector."""
CLUSTER_MEMORY = 0.6
"""The part of a worker's memory that tasks may fill: from there on dask writes blocks to disks."""
CLUSTER_DENSE, CLUSTER_SPARSE = 8.0, 0.12
"""Bytes for each place of a block that is not here yet. Estimate: of a sparse one a hundredth is stored."""
CLUSTER_ENTRY = 12.0
"""Bytes of a stored entry. Estimate: a number and a short index."""
CLUSTER_STORED = 0.5
"""Where entries lie in less than this part of blocks, on average, other operands are read in that part. Estimate."""
CLUSTER_BESIDE = 1.0
"""Those operands have at least so many times the bytes of the sparse one. Measured, cluster: a vector is sent whole in
less time than the tasks take that cut it, a matrix with 64 columns in ten times as much."""
CLUSTER_LOOKED_AT = 128
"""Blocks of work that are looked at to find out what cuts cost."""
