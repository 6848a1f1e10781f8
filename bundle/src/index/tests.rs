//! Tests of the index: what is consistent, and every way in which it can be not.
