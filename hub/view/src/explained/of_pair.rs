//! What one document says of a pair, at a site where one is named.
//!
//! What comes in: the store, a document on record and a pair. What goes out: its assignment or why there is none, and its values there.
//! Where the assignment is for other sites only, it has none.

use outhaul_bundle::hub_api::{AssignmentExplanation, PairVerdict, SetValue};
use outhaul_store::{Session, StoreError, StoredExplanation};

use super::asked::ExplainAsked;
use super::pack::Part;
use super::read;

/// What a document says of a pair.
pub(super) struct OfPair {
    pub(super) assignment: Option<AssignmentExplanation>,
    pub(super) not_assigned: Option<PairVerdict>,
    /// Whether it is assigned, and not to the site that is asked about.
    pub(super) is_elsewhere: bool,
    pub(super) values: Vec<SetValue>,
    pub(super) config_version: Option<String>,
    pub(super) unknown: Option<String>,
}

impl OfPair {
    /// Whether it says that the pair is assigned, to the site where one is named.
    pub(super) fn is_assigned(&self) -> bool {
        self.assignment.is_some() && !self.is_elsewhere
    }

    pub(super) fn read(
        session: &Session<'_>,
        stored: &StoredExplanation,
        asked: &ExplainAsked<'_>,
    ) -> Result<Self, StoreError> {
        let text = session.explanation_part(stored.id, asked.cluster_type)?;
        let is_unknown = text.is_none();
        let mut part: Part = match text {
            Some(text) => read(&text)?,
            None => Part::default(),
        };
        let assignment = part
            .assignments
            .into_iter()
            .find(|one| one.target == asked.target);
        let not_assigned = part
            .not_assigned
            .into_iter()
            .find(|one| one.target == asked.target);
        let sites = assignment.as_ref().and_then(|one| one.sites.as_ref());
        let is_elsewhere =
            !asked.site.is_empty() && sites.is_some_and(|sites| !sites.contains(asked.site));
        let here = assignment.as_ref().filter(|_| !is_elsewhere);
        let (place, config_version) = match here {
            None => (None, None),
            Some(one) => {
                let mut overlays = one.overlays.iter();
                match overlays.find(|overlay| overlay.sites.contains(asked.site)) {
                    Some(overlay) => (Some(overlay.config), Some(overlay.config_version.clone())),
                    None => (one.config, one.config_version.clone()),
                }
            }
        };
        let values = place.and_then(|place| {
            let there = place < part.configs.len();
            there.then(|| part.configs.swap_remove(place))
        });
        let unknown = match (&assignment, &not_assigned) {
            (None, None) if is_unknown => Some(format!(
                "the control plane had no cluster type `{}` then",
                asked.cluster_type
            )),
            (None, None) if part.left_out => Some(
                "it is not assigned, or there is no such target; there are too many pairs that are not assigned to keep why: \
                 ask `outhaul explain` where the control plane is"
                    .to_owned(),
            ),
            (None, None) => Some(format!(
                "the control plane had no deployment target `{}` of this environment then",
                asked.target
            )),
            _ => None,
        };
        Ok(Self {
            assignment,
            not_assigned,
            is_elsewhere,
            values: values.unwrap_or_default(),
            config_version,
            unknown,
        })
    }
}
