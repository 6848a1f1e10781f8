//! Tests of `decode`.
