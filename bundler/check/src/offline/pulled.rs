//! Containers whose image travels and which ask a registry for it at each start.
//!
//! What comes in: the images of `imagePullPolicy: Always` in rendered files and in manifests, with their places. What goes out: a note for
//! each image at each place, with the assignments whose rendered files it is in. It reads nothing.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_control::diagnostic::{Diagnostic, Location};
use outhaul_needs::shown_image;

/// Most assignments that a note names.
const MAX_NAMED: usize = 3;

/// What was found, by place and image: one place may stand for several, such as a patch for two containers.
#[derive(Debug, Default)]
pub(super) struct PulledImages(BTreeMap<(String, String), PulledAt>);

#[derive(Debug)]
struct PulledAt {
    at: Option<Location>,
    /// Of a cluster type and a deployment target, where it is in rendered files.
    assignments: BTreeSet<(String, String)>,
}

impl PulledImages {
    /// Notes an image of a workload's manifests.
    pub(super) fn in_manifests(&mut self, image: &str, at: &Location) {
        self.entry(image, Some(at.clone()));
    }

    /// Notes an image in the rendered files of `assignment`, the cluster type and the deployment target. `at` is in a template.
    pub(super) fn in_rendered(
        &mut self,
        image: &str,
        at: Option<Location>,
        assignment: (&str, &str),
    ) {
        let (cluster_type, target) = assignment;
        let assignment = (cluster_type.to_owned(), target.to_owned());
        self.entry(image, at).assignments.insert(assignment);
    }

    fn entry(&mut self, image: &str, at: Option<Location>) -> &mut PulledAt {
        let place = at.as_ref().map(Location::to_string).unwrap_or_default();
        let entry = self.0.entry((place, image.to_owned()));
        entry.or_insert_with(|| PulledAt {
            at,
            assignments: BTreeSet::new(),
        })
    }

    pub(super) fn findings(self) -> impl Iterator<Item = Diagnostic> {
        let all = self.0.into_iter();
        all.map(|((_, image), found)| found.finding(&image))
    }
}

impl PulledAt {
    fn finding(self, image: &str) -> Diagnostic {
        let message = format!(
            "each start of {} asks the registry for `{}`, which on site is the site's mirror alone: while the mirror does not answer, \
             the container does not start, also where the image is on the node",
            self.container(),
            shown_image(image)
        );
        let finding = Diagnostic::note("pulled-at-each-start", message);
        finding.at_any(self.at.as_ref()).help("write `imagePullPolicy: IfNotPresent`, above all where the agent brings images into containerd itself")
    }

    fn container(&self) -> String {
        if self.assignments.is_empty() {
            return "this container".to_owned();
        }
        let all = self.assignments.iter();
        let named = all
            .take(MAX_NAMED)
            .map(|(cluster_type, target)| format!("`{target}` of cluster type `{cluster_type}`"));
        let named = named.collect::<Vec<_>>().join(", ");
        match self.assignments.len().saturating_sub(MAX_NAMED) {
            0 => format!("a container in the rendered files of {named}"),
            more => format!("a container in the rendered files of {named} and {more} more"),
        }
    }
}
