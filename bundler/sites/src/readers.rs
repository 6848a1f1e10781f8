//! For whom bundles are sealed: who may be named, and what may be a mistake in it.
//!
//! What comes in: the readers that were named, what the centre has on record of its sites, and the streams that bundles could be made of.
//! What goes out: whom to name; a sentence for each key that the record contradicts, which is a refusal; and a doubt for each reader who is
//! no site, and for the sites of a stream that could not open a bundle sealed so. Who is no site, such as a stream with a key of its own, is
//! taken as it is named. Nobody seals for a revoked site: its key is in hands that may read nothing new. It is pure.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Index;
use outhaul_bundle::name::Name;
use outhaul_kit::suggest::nearest;
use outhaul_seal::Recipient;

use super::SiteRecord;

/// Most sites that are named in one doubt.
const MAX_NAMED: usize = 5;

/// Someone who is to read a sealed bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRecipient {
    /// The site's or stream's name, as messages show it.
    pub name: Name,
    /// Its public key.
    pub key: Recipient,
}

/// What may be a mistake in whom bundles are sealed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderWarning {
    /// What kind it is, for programs.
    pub code: &'static str,
    /// What it is.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// The sites that bundles may be sealed for: approved ones that are not revoked.
pub fn sealable(sites: &[SiteRecord]) -> Vec<&SiteRecord> {
    let sites = sites.iter();
    let may_read = |site: &&SiteRecord| !site.seal_key.is_empty() && site.revoked_by().is_none();
    sites.filter(may_read).collect()
}

/// Holds the readers to the record. Nothing is sealed for any of them when it contradicts one.
///
/// # Errors
/// A sentence for each reader whom the record contradicts.
pub fn checked(readers: &[NamedRecipient], sites: &[SiteRecord]) -> Result<(), Vec<String>> {
    let by_name: BTreeMap<&str, &SiteRecord> = sites
        .iter()
        .map(|site| (site.site.as_str(), site))
        .collect();
    let approved = sites.iter().filter(|site| !site.seal_key.is_empty());
    let by_key: BTreeMap<&str, &SiteRecord> = approved
        .map(|site| (site.seal_key.as_str(), site))
        .collect();
    let mut problems = Vec::new();
    for reader in readers {
        let (name, key) = (reader.name.as_str(), reader.key.to_string());
        let owner = by_key.get(key.as_str()).copied();
        let is_approved = |site: &&SiteRecord| !site.seal_key.is_empty();
        let problem = match (by_name.get(name).copied(), owner) {
            (_, Some(owner)) if owner.site.as_str() != name => {
                format!(
                    "the key given for `{name}` is that of the site `{}`",
                    owner.site
                )
            }
            (_, Some(owner)) => match owner.revoked_by() {
                Some(order) => revoked(name, order),
                None => continue,
            },
            (Some(site), None) if is_approved(&site) => format!(
                "the key given for `{name}` is not the one that is approved for that site (it may be from before a new key \
                 or another enrolment)"
            ),
            (Some(_), None) => format!("no key of the site `{name}` was approved yet"),
            (None, None) => continue,
        };
        problems.push(problem);
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// A sentence for each key that could open a bundle which was sealed before and must not now: that of a revoked site, and one that a site had
/// before it was enrolled again or got a new key; none for an open bundle.
pub fn revoked_since(index: &Index, sites: &[SiteRecord]) -> Vec<String> {
    let sealed = index.blobs.iter().find_map(|blob| blob.sealed.as_ref());
    match sealed {
        Some(sealed) => revoked_among(&sealed.recipients, sites),
        None => Vec::new(),
    }
}

/// The same for the keys of these ids.
fn revoked_among(sealed_for: &BTreeMap<Name, Name>, sites: &[SiteRecord]) -> Vec<String> {
    let opens = |site: &SiteRecord| {
        let key = site.seal_key.parse::<Recipient>().ok()?;
        let id = key.id().parse::<Name>().ok()?;
        sealed_for.get(&id)
    };
    let revoked_readers = sites.iter().filter_map(|site| {
        let order = site.revoked_by()?;
        opens(site).map(|_| revoked(site.site.as_str(), order))
    });
    // A machine that was lost keeps its key, of which no record speaks after its site was enrolled again.
    let earlier_keys = sealed_for.iter().filter_map(|(id, name)| {
        let site = sites.iter().find(|site| site.site == *name)?;
        let now = site.seal_key.parse::<Recipient>().ok();
        let is_now = now.is_some_and(|key| key.id() == id.as_str());
        (!is_now).then(|| {
            format!("the key `{id}` that it is sealed for is no longer that of the site `{name}`: another one is approved, or none yet")
        })
    });
    revoked_readers.chain(earlier_keys).collect()
}

fn revoked(site: &str, order: u64) -> String {
    format!(
        "the site `{site}` is revoked by order {order}, and could read what is sealed for its key"
    )
}

/// What may be a mistake in `readers`: names that are of no site, and sites of `streams` that could not open their bundle. Each stream comes
/// with its role and its name for people. Its bundle is for the `recipients` alone, for every site where none is named. Of a revoked site
/// it is meant so.
pub fn reader_warnings(
    readers: &[NamedRecipient],
    sites: &[SiteRecord],
    streams: &[(Name, String)],
    recipients: &[Name],
) -> Vec<ReaderWarning> {
    let is_meant = |site: &SiteRecord| recipients.is_empty() || recipients.contains(&site.site);
    let mut warnings = Vec::new();
    let known: Vec<&str> = sites.iter().map(|site| site.site.as_str()).collect();
    let strangers = readers
        .iter()
        .filter(|one| !known.contains(&one.name.as_str()));
    let strangers: Vec<&NamedRecipient> = strangers.collect();
    for stranger in &strangers {
        let name = stranger.name.as_str();
        let message = format!(
            "`{name}` is not a site on record, and its key belongs to no site of the fleet: whoever has it can read what is sealed"
        );
        let help = match nearest(name, &known) {
            Some(near) => format!(
                "did you mean the site `{near}`? `outhaul site list --recipients` prints names and keys of approved sites"
            ),
            None => "see that it is a key that you made (`outhaul secret keygen`) and gave to the sites; `outhaul site list --recipients` \
                     prints names and keys of approved sites"
                .to_owned(),
        };
        warnings.push(ReaderWarning {
            code: "unknown-reader",
            message,
            help,
        });
    }
    let keys: BTreeSet<String> = readers
        .iter()
        .map(|reader| reader.key.to_string())
        .collect();
    for (role, stream) in streams {
        let follows = sites
            .iter()
            .filter(|site| site.roles.contains(role) && is_meant(site))
            .filter(|site| site.revoked_by().is_none());
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
        warnings.push(ReaderWarning {
            code: "cannot-open",
            message,
            help: help.to_owned(),
        });
    }
    warnings
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::{Instruction, Order};
    use outhaul_seal::Identity;

    use super::*;

    fn site(name: &str, key: &str) -> SiteRecord {
        crate::fake::record(name, key).unwrap()
    }

    /// The same, revoked by order 1.
    fn revoked(name: &str, key: &str) -> SiteRecord {
        let mut site = site(name, key);
        site.orders.push(Order {
            site: site.site.clone(),
            number: 1,
            enrolment: site.enrolment,
            what: Instruction::Revoke,
        });
        site
    }

    fn reader(name: &str, key: &Recipient) -> NamedRecipient {
        NamedRecipient {
            name: name.parse().unwrap(),
            key: key.clone(),
        }
    }

    #[test]
    fn a_key_of_another_site_or_of_nobody_is_not_sealed_for_in_a_sites_name() {
        let key = || Identity::generate().recipient();
        let (one, two, other, four) = (key(), key(), key(), key());
        let sites = [
            site("press-1", &one.to_string()),
            site("press-2", &two.to_string()),
            site("press-3", ""),
            revoked("press-4", &four.to_string()),
        ];
        let problems = |name: &str, key: &Recipient| {
            let checked = checked(&[reader(name, key)], &sites);
            checked.err().unwrap_or_default()
        };
        for (name, key) in [("press-1", &one), ("press-2", &two), ("dev-stream", &other)] {
            assert_eq!(problems(name, key), [""; 0], "{name}");
        }
        for (name, key, words) in [
            ("press-1", &two, "is that of the site `press-2`"),
            ("dev-stream", &two, "is that of the site `press-2`"),
            ("press-1", &other, "is not the one that is approved"),
            (
                "press-3",
                &other,
                "no key of the site `press-3` was approved",
            ),
            ("press-4", &four, "is revoked by order 1"),
            ("dev-stream", &four, "is that of the site `press-4`"),
        ] {
            let problems = problems(name, key).join("; ");
            assert!(problems.contains(words), "{name}: {problems}");
        }
    }

    #[test]
    fn nobody_seals_for_a_revoked_site_nor_ships_what_was_sealed_for_it_before() {
        let key = || Identity::generate().recipient();
        let (one, two) = (key(), key());
        let sites = [
            site("press-1", &one.to_string()),
            revoked("press-2", &two.to_string()),
            site("press-3", ""),
        ];
        let named: Vec<&str> = sealable(&sites)
            .iter()
            .map(|site| site.site.as_str())
            .collect();
        assert_eq!(named, ["press-1"]);
        let sealed_for = |keys: &[&Recipient]| -> BTreeMap<Name, Name> {
            let of = |key: &&Recipient| (key.id().parse().unwrap(), "any".parse().unwrap());
            keys.iter().map(of).collect()
        };
        assert_eq!(revoked_among(&sealed_for(&[&one]), &sites), [""; 0]);
        let found = revoked_among(&sealed_for(&[&one, &two]), &sites);
        assert!(
            matches!(found.as_slice(), [one] if one.contains("`press-2` is revoked by order 1")),
            "{found:?}"
        );
        // The key of a machine that was lost is in no record after its site was enrolled again.
        let lost: BTreeMap<Name, Name> =
            BTreeMap::from([(two.id().parse().unwrap(), "press-1".parse().unwrap())]);
        let again = revoked_among(&lost, &sites[..1]).join("; ");
        assert!(
            again.contains("no longer that of the site `press-1`"),
            "{again}"
        );
        // That it cannot open what is made now is no mistake.
        let streams = [("dev-press".parse().unwrap(), "dev/press".to_owned())];
        let warnings = reader_warnings(&[reader("press-1", &one)], &sites[..2], &streams, &[]);
        assert_eq!(warnings, []);
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
        let found = |readers: &[(&str, &Recipient)], meant: &[&str]| {
            let readers: Vec<NamedRecipient> = readers
                .iter()
                .map(|(name, key)| reader(name, key))
                .collect();
            let meant: Vec<Name> = meant.iter().map(|name| name.parse().unwrap()).collect();
            let warnings = reader_warnings(&readers, &sites, &streams, &meant);
            let texts = warnings
                .into_iter()
                .map(|warning| format!("{}\n{}\n", warning.message, warning.help));
            texts.collect::<String>()
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
            mistyped.contains("`pres-1` is not a site on record"),
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
