//! Whether the keys that bundles are sealed for belong to whom they are named after.
//!
//! What comes in: the readers that were named, and what the centre has on record of its sites. What goes out: nothing, or a sentence for
//! each key that the record contradicts. Who is no site, such as a stream with a key of its own, is taken as it is named. It is pure.

use std::collections::BTreeMap;

use super::ProduceError;
use crate::assemble::attest_and_seal::Reader;
use outhaul_sites::SiteRecord;

/// # Errors
/// [`ProduceError::Readers`]
pub(super) fn checked(readers: &[Reader], sites: &[SiteRecord]) -> Result<(), ProduceError> {
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
        let owner = by_key.get(key.as_str()).map(|site| site.site.as_str());
        let is_approved = |site: &&SiteRecord| !site.seal_key.is_empty();
        let problem = match (by_name.get(name).copied(), owner) {
            (_, Some(owner)) if owner == name => continue,
            (_, Some(owner)) => format!("the key given for `{name}` is that of the site `{owner}`"),
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
        false => Err(ProduceError::Readers { problems }),
    }
}

#[cfg(test)]
mod tests {
    use outhaul_signer::seal::Identity;

    use super::*;

    fn site(name: &str, key: &str) -> SiteRecord {
        outhaul_sites::fake::record(name, key).unwrap()
    }

    #[test]
    fn a_key_of_another_site_or_of_nobody_is_not_sealed_for_in_a_sites_name() {
        let key = || Identity::generate().recipient();
        let (one, two, other) = (key(), key(), key());
        let sites = [
            site("press-1", &one.to_string()),
            site("press-2", &two.to_string()),
            site("press-3", ""),
        ];
        let problems = |name: &str, key: &outhaul_signer::seal::Recipient| {
            let reader = Reader {
                name: name.parse().unwrap(),
                key: key.clone(),
            };
            match checked(&[reader], &sites) {
                Ok(()) => Vec::new(),
                Err(ProduceError::Readers { problems }) => problems,
                Err(other) => panic!("{other}"),
            }
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
        ] {
            let problems = problems(name, key).join("; ");
            assert!(problems.contains(words), "{name}: {problems}");
        }
    }
}
