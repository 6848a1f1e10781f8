//! Assignments for some sites only, and what a bundle is to one site.
//!
//! What comes in: an index, and the name of a site. What goes out: the index as that site gets it: what is
//! for others is left out, and each assignment has the site's own files; or what contradicts itself in the
//! names of sites. Who selects them is decided at the centre: here are names only.

use std::collections::BTreeSet;

use super::{
    AgentRelease, Assignment, FORMAT, FORMAT_WITH_BOOTSTRAP, FORMAT_WITH_SERVED,
    FORMAT_WITH_SITE_RULES, FORMAT_WITH_SITES, Index, Served, Waves,
};
use crate::name::Name;

/// The format of an index with these assignments, what it brings to be served, its waves, and the agent that it brings.
pub fn format_of(
    assignments: &[Assignment],
    served: &Served,
    waves: Option<&Waves>,
    agent: Option<&AgentRelease>,
) -> &'static str {
    let has_values = assignments.iter().any(|one| one.site_values.is_some());
    if assignments.iter().any(|one| one.bootstrap.is_some()) {
        FORMAT_WITH_BOOTSTRAP
    } else if waves.is_some() || agent.is_some() || has_values {
        FORMAT_WITH_SITE_RULES
    } else if !served.is_empty() {
        FORMAT_WITH_SERVED
    } else if assignments.iter().any(|one| one.sites.is_some()) {
        FORMAT_WITH_SITES
    } else {
        FORMAT
    }
}

impl Index {
    /// What a bundle holds for one site: its assignments, each as [`Assignment::for_site`].
    #[must_use]
    pub fn for_site(mut self, site: &Name) -> Self {
        let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.assignments)
            .into_iter()
            .partition(|assignment| assignment.is_for(site));
        for left_out in others {
            self.kept.remove(&left_out.name);
        }
        self.assignments = own;
        for assignment in &mut self.assignments {
            assignment.take_overlay(site);
        }
        self
    }

    /// Names of the assignments that are for other sites than this one, in order.
    pub fn for_others(&self, site: &Name) -> Vec<&Name> {
        let others = self.assignments.iter().filter(|one| !one.is_for(site));
        others.map(|one| &one.name).collect()
    }
}

impl Assignment {
    /// Whether it is for this site.
    pub fn is_for(&self, site: &Name) -> bool {
        self.sites.as_ref().is_none_or(|sites| sites.contains(site))
    }
}

/// What contradicts itself.
pub(super) fn problem(index: &Index) -> Option<String> {
    let expected = format_of(
        &index.assignments,
        &index.served,
        index.waves.as_ref(),
        index.agent.as_ref(),
    );
    if index.format != expected {
        return Some(format!(
            "its format is `{}`, for what it holds it must be `{expected}`",
            index.format
        ));
    }
    index.assignments.iter().find_map(|assignment| {
        let sites = assignment.sites.as_ref()?;
        let name = &assignment.name;
        if sites.is_empty() {
            return Some(format!("`{name}` is for no site"));
        }
        let recipients = &index.recipients;
        if !recipients.is_empty()
            && let Some(other) = sites.difference(recipients).next()
        {
            return Some(format!("`{name}` is for `{other}`, the bundle is not"));
        }
        let own: BTreeSet<&Name> = assignment.overlays.iter().flat_map(|o| &o.sites).collect();
        let other = own.into_iter().find(|site| !sites.contains(*site))?;
        Some(format!(
            "an overlay of `{name}` is for `{other}`, `{name}` is not"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeBundle;
    use crate::limits::Limits;

    fn names(names: &[&str]) -> BTreeSet<Name> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    /// An index with a second assignment that is for these sites.
    fn index(sites: &[&str]) -> Index {
        let mut index = FakeBundle::new(4, &[("namespace.yaml", b"a")])
            .unwrap()
            .index;
        let mut other = index.assignments[0].clone();
        other.name = "gauge".parse().unwrap();
        other.sites = Some(names(sites));
        index.assignments.push(other);
        index.format = FORMAT_WITH_SITES.to_owned();
        index
    }

    fn read(index: &Index) -> Result<Index, String> {
        Index::from_bytes(&index.to_bytes(), &Limits::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_site_that_is_not_selected_gets_the_bundle_without_the_assignment() {
        let mut index = index(&["press-1", "press-2"]);
        let digest = index.snapshot.digest;
        index.kept.insert("gauge".parse().unwrap(), digest);
        let index = read(&index).unwrap();
        let selected = index.clone().for_site(&"press-1".parse().unwrap());
        assert_eq!(selected.assignments, index.assignments);
        let press_3 = "press-3".parse().unwrap();
        assert_eq!(
            index.for_others(&press_3),
            [&"gauge".parse::<Name>().unwrap()]
        );
        let other = index.for_site(&press_3);
        let left: Vec<&str> = other.assignments.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(left, ["hello-world-test"]);
        assert!(other.kept.is_empty());
    }

    #[test]
    fn a_reader_of_the_first_format_cannot_take_it_for_one_of_its_own() {
        let mut index = index(&["press-1"]);
        assert_eq!(
            format_of(&index.assignments, &index.served, None, None),
            "outhaul.dev/bundle/v2"
        );
        index.format = FORMAT.to_owned();
        let error = read(&index).unwrap_err();
        assert!(error.contains("must be `outhaul.dev/bundle/v2`"), "{error}");
        index.assignments[1].sites = None;
        read(&index).unwrap();
        index.format = FORMAT_WITH_SITES.to_owned();
        read(&index).unwrap_err();
    }

    #[test]
    fn a_reader_that_knows_no_bootstrap_refuses_an_index_with_one() {
        let mut index = index(&["press-1"]);
        index.assignments[0].bootstrap = Some("kubernetes".parse().unwrap());
        let error = read(&index).unwrap_err();
        assert!(error.contains("must be `outhaul.dev/bundle/v5`"), "{error}");
        index.format = FORMAT_WITH_BOOTSTRAP.to_owned();
        assert_eq!(read(&index).unwrap(), index);
    }

    #[test]
    fn names_of_sites_do_not_contradict_each_other_and_are_bounded() {
        let error = read(&index(&[])).unwrap_err();
        assert!(error.contains("`gauge` is for no site"), "{error}");
        let mut recipients = index(&["press-1", "press-2"]);
        recipients.recipients = names(&["press-2"]);
        let error = read(&recipients).unwrap_err();
        assert!(error.contains("`gauge` is for `press-1`"), "{error}");

        let limits = Limits {
            max_site_names: 1,
            ..Limits::default()
        };
        let many = index(&["press-1", "press-2"]);
        let error = Index::from_bytes(&many.to_bytes(), &limits).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("2 names of sites, the limit is 1"),
            "{error}"
        );
    }
}
