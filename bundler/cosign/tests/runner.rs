//! Any bytes as a signature: the body that the fuzz target has.

use proptest::prelude::*;

// The library and its own tests verify with these.
use base64 as _;
use p256 as _;
use serde as _;

#[path = "../../../fuzz/bodies/signature.rs"]
mod bodies;

const PAYLOAD: &str = r#"{"critical":{"image":{"docker-manifest-digest":"sha256:00"},"type":"cosign container image signature"}}"#;
const BUNDLE: &str = r#"{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"MEUC"}]}}"#;

proptest! {
    #[test]
    fn fuzz_signature(bytes: Vec<u8>) {
        prop_assert!(!bodies::signature(&bytes));
    }

    #[test]
    fn fuzz_signature_that_was_changed(at: prop::sample::Index, byte: u8, of_payload: bool) {
        let mut bytes = if of_payload { PAYLOAD } else { BUNDLE }.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert!(!bodies::signature(&bytes));
    }
}
