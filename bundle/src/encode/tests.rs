//! Tests of `encode`.
