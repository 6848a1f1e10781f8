//! Envelopes: the published vector, keys and types that do not fit, and random bytes.

use proptest::prelude::*;

use super::*;

const KIND: &str = "application/vnd.outhaul.test+json";

#[test]
fn the_signed_bytes_are_the_published_vector() {
    // From the DSSE protocol page.
    assert_eq!(
        to_be_signed("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
}

#[test]
fn a_signed_payload_round_trips() {
    let key = SigningKey::generate().unwrap();
    let envelope = Envelope::sign(KIND, b"{}".to_vec(), &key);
    let back = Envelope::from_json(&envelope.to_json()).unwrap();
    assert_eq!(back, envelope);
    assert_eq!(back.verify(KIND, &[key.public()]).unwrap(), b"{}");
}

#[test]
fn another_key_another_type_and_a_changed_payload_are_refused() {
    let key = SigningKey::generate().unwrap();
    let other = SigningKey::generate().unwrap();
    let envelope = Envelope::sign(KIND, b"{}".to_vec(), &key);
    let refusal = envelope.verify(KIND, &[other.public()]).unwrap_err();
    assert!(matches!(refusal, EnvelopeError::NotSigned { .. }));
    assert!(matches!(
        envelope.verify(KIND, &[]).unwrap_err(),
        EnvelopeError::NotSigned { .. }
    ));
    let refusal = envelope.verify("text/plain", &[key.public()]).unwrap_err();
    assert!(matches!(refusal, EnvelopeError::OtherType { .. }));

    let mut changed = envelope.clone();
    changed.payload = b"{ }".to_vec();
    assert!(changed.verify(KIND, &[key.public()]).is_err());
    let mut retyped = envelope;
    retyped.payload_type = "text/plain".to_owned();
    assert!(retyped.verify("text/plain", &[key.public()]).is_err());
}

#[test]
fn oversized_and_unsigned_envelopes_are_refused() {
    let large = vec![b' '; MAX_ENVELOPE_BYTES + 1];
    assert!(matches!(
        Envelope::from_json(&large),
        Err(EnvelopeError::TooLarge { .. })
    ));
    let unsigned = br#"{"payload":"e30=","payloadType":"x","signatures":[]}"#;
    assert!(matches!(
        Envelope::from_json(unsigned),
        Err(EnvelopeError::Malformed { .. })
    ));
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(Envelope::from_json(&bytes));
    }

    #[test]
    fn no_flipped_bit_survives(payload in prop::collection::vec(any::<u8>(), 1..80), bit in any::<prop::sample::Index>()) {
        let key = SigningKey::generate().unwrap();
        let mut envelope = Envelope::sign(KIND, payload, &key);
        let at = bit.index(envelope.payload.len() * 8);
        envelope.payload[at / 8] ^= 1 << (at % 8);
        prop_assert!(envelope.verify(KIND, &[key.public()]).is_err());
    }
}
