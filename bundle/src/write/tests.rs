//! Tests of `write`.
