//! Output: a rendered tree on disk.
