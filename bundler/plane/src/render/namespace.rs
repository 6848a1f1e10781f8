//! The namespace of an assignment: `<environment>-<cluster type>-<target>`.
//!
//! What comes in: the three names. What goes out: a name that Kubernetes takes. Kalypso never looks at
//! its length (its defect 26), so that only the cluster says no, at the site. Here what is too long is
//! shortened, in the same way each time, and two long names never become one.

use outhaul_bundle::Digest;
use outhaul_kit::bounds::MAX_DNS_LABEL_BYTES;

/// Hexadecimal digits that distinguish shortened names.
const DIGITS: usize = 8;

/// The namespace as Kalypso names it, however long.
pub fn whole(environment: &str, cluster_type: &str, target: &str) -> String {
    format!("{environment}-{cluster_type}-{target}")
}

/// The namespace that is used; the whole name where it fits, and always with `compat`.
pub fn of(environment: &str, cluster_type: &str, target: &str, compat: bool) -> String {
    let whole = whole(environment, cluster_type, target);
    if compat || whole.len() <= MAX_DNS_LABEL_BYTES {
        return whole;
    }
    let digest = Digest::of(whole.as_bytes()).short();
    let end = whole
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end < MAX_DNS_LABEL_BYTES - DIGITS)
        .last()
        .unwrap_or_default();
    let start = whole.get(..end).unwrap_or_default();
    let digits = digest.get(..DIGITS).unwrap_or(&digest);
    format!("{}-{digits}", start.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_stays_as_kalypso_names_it() {
        assert_eq!(
            of("dev", "drone", "hello-test", false),
            "dev-drone-hello-test"
        );
        let (environment, target) = ("e".repeat(31), "t".repeat(29));
        let exact = of(&environment, "c", &target, false);
        assert_eq!(
            (exact.len(), exact),
            (MAX_DNS_LABEL_BYTES, whole(&environment, "c", &target))
        );
    }

    proptest! {
        #[test]
        fn long_names_are_labels_and_stay_apart(
            a in "[a-z0-9][a-z0-9-]{20,60}[a-z0-9]", b in "[a-z0-9][a-z0-9-]{20,60}[a-z0-9]"
        ) {
            let one = of("production", &a, "hello-world-test", false);
            prop_assert!(one.len() <= MAX_DNS_LABEL_BYTES && !one.ends_with('-'), "{}", one);
            prop_assert_eq!(&one, &of("production", &a, "hello-world-test", false));
            if a != b {
                prop_assert_ne!(one, of("production", &b, "hello-world-test", false));
            }
        }
    }
}
