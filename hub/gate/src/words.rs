//! Numbers of hours and sites, and parts of a fleet, in the texts of rules.
//!
//! What comes in: the edition of the rules, and what is named. What goes out: the words of that edition, so that decisions of before are
//! recomputed as they were said. Pure.

use outhaul_bundle::hub_api::PartRule;

/// Since which edition one of something is named as one, and a part by what its sites run.
const SINCE: u32 = 5;

/// `1 hour`, `3 hours`.
pub(crate) fn hours(edition: u32, hours: i64) -> String {
    match edition >= SINCE && hours == 1 {
        true => "1 hour".to_owned(),
        false => format!("{hours} hours"),
    }
}

/// `last hour`, `last 3 hours`.
pub(crate) fn last_hours(edition: u32, hours: i64) -> String {
    match edition >= SINCE && hours == 1 {
        true => "last hour".to_owned(),
        false => format!("last {hours} hours"),
    }
}

/// `at least 1 site confirms`, `at least 2 sites of cluster type `ring-0` confirm`.
pub(crate) fn at_least(edition: u32, least: u32, of: &str) -> String {
    match edition >= SINCE && least == 1 {
        true => format!("at least 1 site{of} confirms"),
        false => format!("at least {least} sites{of} confirm"),
    }
}

/// Which sites a rule is for, after `sites`.
pub(crate) fn of_part(edition: u32, rule: &PartRule) -> String {
    let (Some(workload), true) = (&rule.workload, edition >= SINCE) else {
        return format!(" of {}", rule.name());
    };
    let of_type = rule.cluster_type.as_ref();
    let of_type = of_type.map_or_else(String::new, |name| format!(" of cluster type `{name}`"));
    format!("{of_type} with workload `{workload}`")
}

/// What no site does that a rule is for, after `no site`.
pub(crate) fn is_in_part(edition: u32, rule: &PartRule) -> String {
    match (&rule.cluster_type, &rule.workload) {
        _ if edition < SINCE => format!("is of {}", rule.name()),
        (Some(name), Some(workload)) => {
            format!("of cluster type `{name}` runs workload `{workload}`")
        }
        (None, Some(workload)) => format!("runs workload `{workload}`"),
        (_, None) => format!("is of {}", rule.name()),
    }
}

/// What opens a gate whose rule is for sites that are not there, or of which none counts.
pub(crate) fn opens_without_sites(environment: &str, rule: &PartRule, is_known: bool) -> String {
    let part = is_in_part(SINCE, rule);
    match is_known {
        true => "the sites of this part are waived or deferred: withdraw that, or remove the part from the promotion policy".to_owned(),
        false => format!(
            "no site of `{environment}` {part}: correct the part in the promotion policy"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_named_as_one_and_editions_of_before_keep_their_words() {
        assert_eq!(
            (hours(5, 1), hours(5, 2)),
            ("1 hour".into(), "2 hours".into())
        );
        assert_eq!(
            (hours(4, 1), last_hours(4, 1)),
            ("1 hours".into(), "last 1 hours".into())
        );
        assert_eq!(last_hours(5, 1), "last hour");
        assert_eq!(at_least(5, 1, ""), "at least 1 site confirms");
        assert_eq!(at_least(4, 1, ""), "at least 1 sites confirm");
        let part = |cluster_type: Option<&str>, workload: Option<&str>| PartRule {
            cluster_type: cluster_type.map(str::to_owned),
            workload: workload.map(str::to_owned),
            quorum_percent: None,
            min_sites: None,
            soak_hours: None,
        };
        for (rule, of, is_in) in [
            (
                part(Some("a"), None),
                " of cluster type `a`",
                "is of cluster type `a`",
            ),
            (
                part(None, Some("w")),
                " with workload `w`",
                "runs workload `w`",
            ),
            (
                part(Some("a"), Some("w")),
                " of cluster type `a` with workload `w`",
                "of cluster type `a` runs workload `w`",
            ),
        ] {
            assert_eq!(
                (of_part(5, &rule), is_in_part(5, &rule)),
                (of.into(), is_in.into())
            );
            assert_eq!(of_part(4, &rule), format!(" of {}", rule.name()));
            assert!(is_in_part(4, &rule).starts_with("is of "));
        }
    }
}
