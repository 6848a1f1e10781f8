//! What may be a mistake in whom bundles are sealed for.
//!
//! What comes in: the readers that were named, the fleet's sites as they are on record, and the streams that bundles could be made of. What
//! goes out: a warning for each reader who is no site, and for the sites of a stream that could not open a bundle sealed so. Whether one is
//! made is not known here. It refuses nothing and is pure.

use std::collections::BTreeSet;

use outhaul_bundle::name::Name;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_kit::suggest::nearest;
use outhaul_ship::assemble::attest_and_seal::Reader;
use outhaul_sites::SiteRecord;

/// Most sites that are named in one warning.
const MAX_NAMED: usize = 5;

/// What may be a mistake in `readers`: names that are of no site, and sites of `streams` that could not open their bundle. Each stream comes
/// with its role, its name for people, and whether a site is one that its bundle is for.
pub(super) fn doubtful(
    readers: &[Reader],
    sites: &[SiteRecord],
    streams: &[(Name, String)],
    is_meant: &dyn Fn(&SiteRecord) -> bool,
) -> Diagnostics {
    let mut findings = Diagnostics::new();
    let known: Vec<&str> = sites.iter().map(|site| site.site.as_str()).collect();
    let strangers = readers
        .iter()
        .filter(|one| !known.contains(&one.name.as_str()));
    let strangers: Vec<&Reader> = strangers.collect();
    for stranger in &strangers {
        let name = stranger.name.as_str();
        let message = format!(
            "`{name}` is no site on record, and its key is none of the fleet's sites: whoever has it can read what is sealed"
        );
        let help = match nearest(name, &known) {
            Some(near) => format!(
                "did you mean the site `{near}`? `outhaul site list --recipients` prints names and keys of approved sites"
            ),
            None => "see that it is a key that you made (`outhaul secret keygen`) and gave to the sites; `outhaul site list --recipients` \
                     prints names and keys of approved sites"
                .to_owned(),
        };
        findings.push(Diagnostic::warning("unknown-reader", message).help(help));
    }
    let keys: BTreeSet<String> = readers
        .iter()
        .map(|reader| reader.key.to_string())
        .collect();
    for (role, stream) in streams {
        let follows = sites
            .iter()
            .filter(|site| site.roles.contains(role) && is_meant(site));
        let without = follows.filter(|site| !keys.contains(&site.seal_key));
        let without: Vec<&str> = without.map(|site| site.site.as_str()).collect();
        if without.is_empty() {
            continue;
        }
        let shown = without.iter().take(MAX_NAMED);
        let mut names: Vec<String> = shown.map(|name| format!("`{name}`")).collect();
        if without.len() > MAX_NAMED {
            names.push(format!("{} more", without.len() - MAX_NAMED));
        }
        let unless = match strangers.first() {
            Some(stranger) => format!(", unless it has the key of `{}`", stranger.name),
            None => String::new(),
        };
        let message = format!(
            "{} of {stream} could not open a bundle sealed so: it is not for the key of that site{unless}",
            names.join(", ")
        );
        let help = "add the lines of these sites that `outhaul site list --recipients` prints; a site without a key there is not approved yet";
        findings.push(Diagnostic::warning("cannot-open", message).help(help));
    }
    findings
}

#[cfg(test)]
mod tests {
    use outhaul_signer::seal::Identity;

    use super::*;

    fn site(name: &str, key: &str) -> SiteRecord {
        outhaul_sites::fake::record(name, key).unwrap()
    }

    #[test]
    fn a_reader_who_is_no_site_and_a_site_that_cannot_open_its_bundle_are_named() {
        let key = || Identity::generate().recipient();
        let (one, two, other) = (key(), key(), key());
        let sites = [
            site("press-1", &one.to_string()),
            site("press-2", &two.to_string()),
            site("press-3", ""),
        ];
        let streams = [("dev-press".parse().unwrap(), "dev/press".to_owned())];
        let found = |readers: &[(&str, &outhaul_signer::seal::Recipient)], meant: &[&str]| {
            let readers: Vec<Reader> = readers
                .iter()
                .map(|(name, key)| Reader {
                    name: name.parse().unwrap(),
                    key: (*key).clone(),
                })
                .collect();
            let is_meant = |site: &SiteRecord| meant.contains(&site.site.as_str());
            doubtful(&readers, &sites, &streams, &is_meant).to_string()
        };
        assert_eq!(
            found(
                &[("press-1", &one), ("press-2", &two)],
                &["press-1", "press-2"]
            ),
            ""
        );
        let mistyped = found(
            &[("pres-1", &other), ("press-2", &two)],
            &["press-1", "press-2"],
        );
        assert!(
            mistyped.contains("`pres-1` is no site on record"),
            "{mistyped}"
        );
        assert!(
            mistyped.contains("did you mean the site `press-1`?"),
            "{mistyped}"
        );
        let cannot = "`press-1` of dev/press could not open a bundle sealed so";
        assert!(mistyped.contains(cannot), "{mistyped}");
        assert!(
            mistyped.contains("unless it has the key of `pres-1`"),
            "{mistyped}"
        );
        let one_only = found(&[("press-1", &one)], &["press-1", "press-2", "press-3"]);
        assert!(
            one_only.contains("`press-2`, `press-3` of dev/press could not open"),
            "{one_only}"
        );
        assert!(!one_only.contains("no site on record"), "{one_only}");
        assert_eq!(found(&[("press-1", &one)], &["press-1"]), "");
    }
}
