//! What the rules by which something is refused come to: what is left alone, whose fault it is, and what to do.
//!
//! What comes in: the word of the rule. What goes out: words for people, and whether it is a finding about this site. It looks at nothing.

use super::FAILED_BEFORE;

/// What a refusal leaves alone: a revoked site still notes which keys sign the orders of a bundle that it
/// refuses.
pub(super) fn left_alone(rule: &str) -> &'static str {
    match rule {
        "revoked" | "parity" => "nothing was installed",
        "damaged-acks-in-part" => "but for the part that is whole",
        _ => "nothing was changed",
    }
}

/// Whether a refusal says what this site lacks, and not that something is wrong with what was brought.
pub(super) fn is_of_findings(rule: &str) -> bool {
    matches!(rule, FAILED_BEFORE | "left-out" | "patch-base")
}

/// What to do after a refusal by `rule`.
pub(super) fn refusal_help(rule: &str) -> &'static str {
    match rule {
        "rollback" => "use the newest bundle; to go back on purpose, run `outhaul-agent rollback`",
        "revoked" => {
            "ask the centre: `outhaul site enrol` writes a new kit, and `outhaul-agent enrol` enrols with it"
        }
        "damaged-acks" | "acks-of-another-site" => {
            "at the hub, import this site's reports with `outhaul-hub import` or run `outhaul-hub acks`, so that the \
             file is written again"
        }
        "damaged-slip" | "typing-error" | "not-a-slip" => {
            "scan or type it again from its beginning, or carry it as a file"
        }
        "stream" | "recipient" | "fleet" | "foreign-fleet" => {
            "use a bundle that was made for this site"
        }
        "backup-digest" => {
            "use the file whose digest was written down; if there is none, ask who made the backup"
        }
        "backup-format" => "restore it with the agent of the version that wrote it, or a newer one",
        rule if rule == "not-a-backup" || rule.starts_with("backup-") => {
            "do not use this file: take another copy of the backup, or replace the site with a new kit"
        }
        "patch" => {
            "bring the whole bundle (`outhaul copy` without `--since`), which always works; tell the centre if a new copy \
             is refused the same way"
        }
        "twin" => "bring the whole bundle (`outhaul copy` without `--since`), which always works",
        "left-out" | "patch-base" => {
            "bring the whole bundle (`outhaul copy` without `--since`), or a copy since a bundle that this site has; \
             with the bundle that the copy was made since, or the missing parts of this one, on a stick, import that \
             first and then this copy again"
        }
        "expired" => {
            "ask the centre for a freshly signed bundle; the running bundle is not affected"
        }
        "published-twice" => {
            "the running bundle is not affected; tell the centre: it was restored from a backup, or signs in two places. Where it \
             was restored, `outhaul-signer restored FLEET` lets its next bundle count on above this one"
        }
        "not-a-bundle" => {
            "bundles are written by `outhaul bundle` or `outhaul copy` at the centre; if this one was, copy it again: its \
             beginning is damaged"
        }
        "truncated" => {
            "copy it again from the centre, and unmount the stick (`umount`) before it is pulled out"
        }
        FAILED_BEFORE => {
            "ask the centre for a newer bundle, or allow this one again with `outhaul-agent approve NUMBER`, by the number that is named above, and import it again"
        }
        _ => {
            "do not use this copy: get the bundle again, and report it if the new copy is refused, too"
        }
    }
}
