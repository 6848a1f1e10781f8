//! What is wrong with the values of sites: each finding once, however many sites it is about.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::diagnostic::{Diagnostic, Diagnostics};

/// Text, file and place: what makes two findings one.
type Key = (String, Option<(String, usize)>);

/// Findings with the sites that they are about.
#[derive(Debug, Default)]
pub struct SiteFindings(BTreeMap<Key, (Diagnostic, BTreeSet<String>)>);

impl SiteFindings {
    /// Adds what is wrong for `sites`.
    pub fn add<S: AsRef<str>>(&mut self, sites: &[S], findings: Diagnostics) {
        for finding in findings {
            let place = finding.location.as_ref();
            let place = place.map(|at| (at.file.name.clone(), at.span.start));
            let key = (finding.message.clone(), place);
            let (_, known) = self
                .0
                .entry(key)
                .or_insert_with(|| (finding, BTreeSet::new()));
            known.extend(sites.iter().map(|site| site.as_ref().to_owned()));
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, each with the names of its sites in front.
    pub fn finish(self) -> Diagnostics {
        let mut all = Diagnostics::new();
        all.extend(self.0.into_values().map(|(finding, sites)| Diagnostic {
            message: format!("{}: {}", site_names(&sites), finding.message),
            ..finding
        }));
        all
    }
}

fn site_names(sites: &BTreeSet<String>) -> String {
    let mut names = sites.iter();
    match (names.next(), names.next(), names.len()) {
        (Some(one), None, _) => format!("site `{one}`"),
        (Some(one), Some(other), 0) => format!("sites `{one}` and `{other}`"),
        (Some(one), Some(_), more) => format!("site `{one}` and {} others", more + 1),
        (None, ..) => "no site".to_owned(),
    }
}
