"""A corpus of the kernels that the tests make, and what a tree makes of them: see docs/how.md."""
