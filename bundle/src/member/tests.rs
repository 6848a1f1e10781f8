//! Tests of `member`.
