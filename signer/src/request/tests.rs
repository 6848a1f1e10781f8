//! Requests and answers: what is put before a signer, and which answers count.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::key::SigningKey;

fn request(payload: &[u8], role: &str) -> (SigningRequest, SigningKey) {
    let key = SigningKey::generate().unwrap();
    let keys = BTreeMap::from([(key.public().id(), Key::new(&key.public()))]);
    (
        SigningRequest::new("0123456789abcdef", role, payload, keys),
        key,
    )
}

#[test]
fn a_request_is_answered_and_the_answer_accepted() {
    let payload = canonical::to_bytes(&json!({"_type": "root", "version": 2})).unwrap();
    let (request, key) = request(&payload, "root");
    let request = SigningRequest::from_bytes(&request.to_bytes()).unwrap();
    let answer = SigningAnswer::from_bytes(&request.answer(&key).unwrap().to_bytes()).unwrap();
    assert_eq!(request.accept(&answer).unwrap().keyid, key.public().id());
    let mut forged = answer;
    forged.signature.sig = "00".repeat(64);
    let refusal = request.accept(&forged).unwrap_err();
    assert!(
        matches!(refusal, RequestError::BadSignature { .. }),
        "{refusal}"
    );
}

#[test]
fn only_canonical_metadata_of_the_named_role_is_put_before_a_signer() {
    for (payload, role) in [
        (&b"{\"version\": 2,\"_type\":\"root\"}"[..], "root"),
        (b"{\"_type\":\"root\",\"_type\":\"targets\"}", "root"),
        (b"{\"_type\":\"targets\"}", "root"),
        (b"{\"_type\":\"root\"}", "s-0123456789abcdef"),
        (b"tuf", "root"),
    ] {
        let (request, _) = request(payload, role);
        let refusal = SigningRequest::from_bytes(&request.to_bytes()).unwrap_err();
        assert!(
            matches!(refusal, RequestError::Malformed { .. }),
            "{refusal}"
        );
    }
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(SigningRequest::from_bytes(&bytes));
        drop(SigningAnswer::from_bytes(&bytes));
    }
}
