//! YAML as Go's `yaml.v2` and `yaml.v3` read it and as `yaml.v3` writes it.
//!
//! In: YAML text, or values. Out: values, or YAML text byte for byte as Go's.
//! The reader is a port of the rules of libyaml, which both Go libraries share: what it
//! accepts decides whether Kalypso takes a config value for an object or for text.

mod decode;
mod emit;
mod order;
mod parser;
mod resolve;
mod scalar;
mod scanner;

pub(crate) use decode::decode;
pub(crate) use emit::marshal;
