//! Changes of a fleet's keys.
