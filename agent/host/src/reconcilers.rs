//! The reconcilers of one bundle: the stream's, and those of the assignments that bring it.
//!
//! What comes in: the index of a bundle. What goes out: for each of its assignments the reconciler that makes it real. It
//! applies nothing, and decides no order: `generation::desired` has what brings the reconciler before the others.

use std::collections::BTreeMap;

use outhaul_bundle::Index;
use outhaul_bundle::index::Assignment;
use outhaul_bundle::name::Name;
use outhaul_reconcilers::{ApplyError, Reconciler};
use outhaul_settings::apply;
use outhaul_settings::config::AgentConfig;
use outhaul_site::state_folder::StateFolder;
use outhaul_values::{GivenValues, WithSiteValues};

use crate::facilities::Facilities;

/// The reconcilers of one bundle.
#[derive(Debug)]
pub struct BundleReconcilers {
    stream: Box<dyn Reconciler>,
    /// Of what is applied before the others, by kind.
    bootstrap: BTreeMap<Name, Box<dyn Reconciler>>,
}

impl BundleReconcilers {
    /// Those of `index` by the site's settings, which give assignments the `values` that this site set.
    ///
    /// # Errors
    /// [`ApplyError`] when this site lacks one.
    pub fn of(
        index: &Index,
        facilities: &dyn Facilities,
        settings: &AgentConfig,
        state_folder: &StateFolder,
        values: &GivenValues,
    ) -> Result<Self, ApplyError> {
        let for_bootstrap = apply::for_bootstrap(settings);
        let own = |kind: &Name, config| {
            let inner = facilities.reconciler(kind.as_str(), config, state_folder)?;
            Ok::<_, ApplyError>(WithSiteValues::over(inner, values.clone()))
        };
        let mut bootstrap = BTreeMap::new();
        for kind in index
            .assignments
            .iter()
            .filter_map(|one| one.bootstrap.as_ref())
        {
            if !bootstrap.contains_key(kind) {
                bootstrap.insert(kind.clone(), own(kind, &for_bootstrap)?);
            }
        }
        Ok(Self {
            stream: own(&index.reconciler.kind, settings)?,
            bootstrap,
        })
    }

    /// The one that makes `assignment` real.
    pub fn for_assignment(&self, assignment: &Assignment) -> &dyn Reconciler {
        let brings = assignment.bootstrap.as_ref();
        let found = brings.and_then(|kind| self.bootstrap.get(kind));
        found.unwrap_or(&self.stream).as_ref()
    }

    /// Whether each is here.
    ///
    /// # Errors
    /// [`ApplyError`] of the first that is not.
    pub fn ready(&self) -> Result<(), ApplyError> {
        let all = self.bootstrap.values().chain([&self.stream]);
        all.into_iter().try_for_each(|one| one.ready())
    }

    /// Whether what a bundle does not have any more goes when it is known to be healthy, and not while it is applied.
    pub fn prunes_last(&self) -> bool {
        let mut all = self.bootstrap.values().chain([&self.stream]);
        all.any(|one| one.prunes_last())
    }
}
