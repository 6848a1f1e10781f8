//! What fuzzing does with foreign bytes that claim to be an event of a site without an agent.
//!
//! What comes in: any bytes. What goes out: nothing; no body may panic. What is understood names an object and a commit that cannot
//! leave the address which they are put into.

use outhaul_bundle::report::WebhookSender;
use outhaul_webhooks::{WebhookEvent, is_proven, parse};

/// A webhook: what shows the secret, and the body after a line break. Nobody guesses the secret.
pub fn site_webhook(bytes: &[u8]) {
    let shown = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let body = bytes.get(shown.len() + 1..).unwrap_or_default();
    for sender in WebhookSender::ALL {
        let shown = String::from_utf8_lossy(shown);
        assert!(!is_proven(sender, "a secret of 64 digits", &shown, body));
        for read in [parse(sender, bytes), parse(sender, body)] {
            read.iter().for_each(holds);
        }
    }
}

fn holds(event: &WebhookEvent) {
    assert_eq!(event.object.split('/').count(), 3);
    assert!(event.object.len() <= 300 && event.message.len() <= 303);
    assert!(!event.message.chars().any(char::is_control));
    let is_hex = |commit: &String| commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(
        event
            .commit
            .iter()
            .all(|commit| is_hex(commit) && commit.len() >= 40)
    );
}
