//! Any bytes as a signature: the body that the fuzz target has.

use proptest::prelude::*;

// The library and its own tests verify with these.
use base64 as _;
use jiff as _;
use outhaul_algorithms as _;
use p256 as _;
use serde as _;

#[path = "../../../fuzz/bodies/signature.rs"]
mod bodies;

const PAYLOAD: &str = r#"{"critical":{"image":{"docker-manifest-digest":"sha256:00"},"type":"cosign container image signature"}}"#;
const BUNDLE: &str = r#"{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"MEUC"}]}}"#;
/// With what an identity's signature has, of nobody.
const KEYLESS: &str = r#"{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"certificate":{"rawBytes":"MAA="},"tlogEntries":[{"logIndex":"1","logId":{"keyId":"wNI9atQGlz+VWfO6LRygH4QUfY/8W4RFwiT5i5WRgB0="},"kindVersion":{"kind":"dsse","version":"0.0.1"},"integratedTime":"1756728839","inclusionPromise":{"signedEntryTimestamp":"MAA="},"canonicalizedBody":"e30="}],"timestampVerificationData":{"rfc3161Timestamps":[{"signedTimestamp":"MAA="}]}},"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"MEUC"}]}}"#;
const LOGGED: &str = r#"{"SignedEntryTimestamp":"MAA=","Payload":{"body":"eyJraW5kIjoiaGFzaGVkcmVrb3JkIiwiYXBpVmVyc2lvbiI6IjAuMC4xIn0=","integratedTime":1756728839,"logIndex":1,"logID":"c0d2"},"SignedRFC3161Timestamp":"MAA="}"#;

proptest! {
    #[test]
    fn fuzz_signature(bytes: Vec<u8>) {
        prop_assert!(!bodies::signature(&bytes));
    }

    #[test]
    fn fuzz_signature_that_was_changed(at in any::<prop::sample::Index>(), byte in any::<u8>(), seed in 0..4_usize) {
        let mut bytes = [PAYLOAD, BUNDLE, KEYLESS, LOGGED][seed].as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert!(!bodies::signature(&bytes));
    }
}
