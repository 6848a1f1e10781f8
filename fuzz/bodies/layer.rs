//! Foreign bytes as a layer of an image.
//!
//! What comes in: any bytes. What must hold: no panic, bounded memory; and what is read of a layer comes out of what is kept of it,
//! and makes one document whose texts steer no terminal.

use std::collections::BTreeSet;
use std::io::Write as _;

use outhaul_attest::materials::{Contents, Image, LayerFacts, document};
use outhaul_bundle::Digest;

/// Reads a layer, as it is and in gzip; whether the first can be read.
pub fn layer(bytes: &[u8]) -> bool {
    let level = flate2::Compression::fast();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), level);
    packed.write_all(bytes).ok();
    let packed = packed.finish().unwrap_or_default();
    let read = [bytes, &packed].map(|layer| LayerFacts::read(layer).ok());
    for facts in read.iter().flatten() {
        let kept = serde_json::to_vec(facts).unwrap_or_default();
        assert_eq!(
            serde_json::from_slice::<LayerFacts>(&kept).ok().as_ref(),
            Some(facts)
        );
        let image = Image {
            names: BTreeSet::from(["docker.io/library/a:1".to_owned()]),
            manifest: Digest::of(bytes),
        };
        let platforms = [("linux/amd64".to_owned(), Ok(Contents::of([facts, facts])))];
        let document = document(&image, &platforms);
        assert!(!document.trim_ascii_end().iter().any(u8::is_ascii_control));
    }
    read[0].is_some()
}
