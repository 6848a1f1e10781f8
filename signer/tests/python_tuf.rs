//! Interoperability with the reference client: it downloads what a fleet publishes.
