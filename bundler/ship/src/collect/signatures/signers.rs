//! Keys and trusted roots in the policies of a control plane: whether they verify, and how old the roots are.
//!
//! What comes in: a control plane and the time. What goes out: a finding for each key and each root that cannot verify, and a warning
//! for each root that is old. Nothing fetches a newer one: whoever carries a root has to replace it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_control::model::SignatureRule;
use outhaul_cosign::{SignatureKey, TrustedRoot};

/// What to do about a key.
pub(super) const KEY_HELP: &str =
    "write the public key of a pair that `cosign generate-key-pair` made";

/// What to do about a root.
pub(super) const HELP: &str = "replace its `json` with the `trusted_root.json` of its instance as it is now: `cosign trusted-root create` for an own \
                               one, `cosign initialize` for Sigstore's";

/// What is wrong with the keys and roots that entries of `plane` name, or old about them at `now`.
pub fn signers(plane: &ControlPlane, now: Timestamp) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let mut seen = BTreeSet::new();
    let policies = plane.deliveries.values();
    let rules = policies.flat_map(|policy| policy.image_signatures.iter().flat_map(|one| &one.0));
    let rules: Vec<&SignatureRule> = rules.collect();
    for key in rules.iter().flat_map(|rule| &rule.keys) {
        if let Err(error) = SignatureKey::parse(&key.value) {
            let message = format!("a key of `imageSignatures` cannot verify signatures: {error}");
            let finding = Diagnostic::error("bad-value", message).at(&key.location);
            findings.push(finding.help(KEY_HELP));
        }
    }
    for root in rules.iter().filter_map(|rule| rule.root.as_ref()) {
        let at = &root.json.location;
        if !seen.insert(at.file_line()) {
            continue;
        }
        let name = &root.name;
        match TrustedRoot::parse(&root.json.value) {
            Err(error) => {
                let message =
                    format!("the trusted root `{name}` cannot verify signatures: {error}");
                findings.push(Diagnostic::error("bad-value", message).at(at).help(HELP));
            }
            Ok(parsed) => findings.extend(parsed.alarms(now).into_iter().map(|alarm| {
                let message = format!("the trusted root `{name}` is old: {alarm}");
                Diagnostic::warning("old-trusted-root", message)
                    .at(at)
                    .help(HELP)
            })),
        }
    }
    findings
}
