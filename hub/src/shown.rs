//! Tests of what is shown (`outhaul-view`), over a store that this crate's own ingest filled.

mod carrier;
mod newest;
