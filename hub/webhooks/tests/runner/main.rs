//! Foreign bytes: the fuzz body of webhooks as a property test.

use proptest::prelude::*;

#[path = "../../../../fuzz/bodies/hub.rs"]
mod bodies;

/// An event of Flux and one of Argo CD, to be damaged.
const EVENTS: [&str; 2] = [
    r#"{"involvedObject":{"kind":"Kustomization","namespace":"flux-system","name":"platform"},"severity":"info","timestamp":"2026-11-29T22:10:05Z","message":"m","reason":"ReconciliationSucceeded","metadata":{"revision":"dev@sha1:a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1","site":"store-7"}}"#,
    r#"{"format":"outhaul.dev/argocd-webhook/v1","site":"store-7","namespace":"argocd","application":"platform","repository":"https://git.example/platform","revision":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1","sync":"Synced","health":"Healthy","phase":"Succeeded","message":"m","at":"2026-11-29T22:10:05Z"}"#,
];

#[test]
fn the_events_that_are_damaged_are_events() {
    use outhaul_bundle::report::WebhookSender;
    for (sender, text) in WebhookSender::ALL.into_iter().zip(EVENTS) {
        outhaul_webhooks::parse(sender, text.as_bytes()).unwrap();
    }
}

proptest! {
    #[test]
    fn fuzz_site_webhook_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bodies::site_webhook(&bytes);
    }

    #[test]
    fn fuzz_site_webhook_of_damaged_events(which in 0..2usize, at in 0..400usize, bytes in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut text = format!("sha256=00\n{}", EVENTS[which]).into_bytes();
        let at = at.min(text.len());
        let end = (at + bytes.len()).min(text.len());
        text.splice(at..end, bytes);
        bodies::site_webhook(&text);
    }
}
