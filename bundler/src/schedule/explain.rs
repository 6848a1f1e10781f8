//! Explain: why a pair is assigned, or which requirement keeps it from being so.
