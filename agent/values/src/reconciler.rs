//! A reconciler that gives assignments with the site's values to another one.
//!
//! What comes in: what any reconciler gets, and the values that the site keeps. What goes out: what the other one says. It
//! decides nothing and keeps no contract of its own: the other reconciler sees one more rendering, and applies, compares
//! and removes it as any. A value that the bundle does not allow is not used: the file has the centre's.

use outhaul_bundle::report::{AssignmentResult, StepResult};
use outhaul_kit::heartbeat::Heartbeat;
use outhaul_reconcilers::{ApplyError, Change, Desired, Item, Ledger, Reconciler, outcome};

use crate::checked::check_values;
use crate::file::{self, PutError};
use crate::given::GivenValues;

/// The reconciler.
#[derive(Debug)]
pub struct WithSiteValues {
    inner: Box<dyn Reconciler>,
    given: GivenValues,
}

impl WithSiteValues {
    /// `inner`, with what the site keeps; `inner` itself when that is nothing.
    pub fn over(inner: Box<dyn Reconciler>, given: GivenValues) -> Box<dyn Reconciler> {
        match given.is_empty() {
            true => inner,
            false => Box::new(Self { inner, given }),
        }
    }

    fn put(&self, desired: &Desired) -> Result<Desired, PutError> {
        let assignment = &desired.assignment;
        let given = self.given.of(assignment.name.as_str());
        let checked = check_values(assignment.site_values.as_ref(), given);
        file::with_values(desired, &checked.used)
    }

    /// What `work` makes of the assignment with its values; one that cannot have them has failed.
    fn on<T>(
        &self,
        desired: &Desired,
        failed: impl FnOnce(AssignmentResult) -> T,
        work: impl FnOnce(&Desired) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        match self.put(desired) {
            Ok(own) => work(&own),
            Err(PutError::File(error)) => Err(error.into()),
            Err(PutError::Value(error)) => {
                let message = format!("the values of this site cannot be used: {error}");
                Ok(failed(outcome::failed(desired, &message, Vec::new())))
            }
        }
    }
}

impl Reconciler for WithSiteValues {
    fn kind(&self) -> &str {
        self.inner.kind()
    }

    fn ready(&self) -> Result<(), ApplyError> {
        self.inner.ready()
    }

    fn prepare(&self, desired: &Desired, pulse: &Heartbeat) -> Result<(), ApplyError> {
        self.on(desired, drop, |own| self.inner.prepare(own, pulse))
    }

    fn plan(&self, desired: &Desired, recorded: &[Item]) -> Vec<Change> {
        let own = self.put(desired).unwrap_or_else(|_| desired.clone());
        self.inner.plan(&own, recorded)
    }

    fn plans_every_file(&self) -> bool {
        self.inner.plans_every_file()
    }

    fn runs_again(&self) -> bool {
        self.inner.runs_again()
    }

    fn in_the_way(&self, desired: &Desired, recorded: &[Item]) -> Result<Vec<String>, ApplyError> {
        let own = self.put(desired).unwrap_or_else(|_| desired.clone());
        self.inner.in_the_way(&own, recorded)
    }

    fn absent(&self, desired: &Desired, recorded: &[Item]) -> Result<Vec<Change>, ApplyError> {
        let own = self.put(desired).unwrap_or_else(|_| desired.clone());
        self.inner.absent(&own, recorded)
    }

    fn not_looked_for(&self) -> Option<&'static str> {
        self.inner.not_looked_for()
    }

    fn goes_with_removed(&self, gone: bool, recorded: &[Item]) -> Vec<Change> {
        self.inner.goes_with_removed(gone, recorded)
    }

    fn items(&self, desired: &Desired) -> Vec<Item> {
        let own = self.put(desired).unwrap_or_else(|_| desired.clone());
        self.inner.items(&own)
    }

    fn apply(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        self.on(
            desired,
            |failed| failed,
            |own| {
                file::remove_others(own)?;
                self.inner.apply(own, recorded, ledger, heartbeat)
            },
        )
    }

    fn observe(
        &self,
        desired: &Desired,
        recorded: &[Item],
        heartbeat: &Heartbeat,
    ) -> Result<AssignmentResult, ApplyError> {
        self.on(
            desired,
            |failed| failed,
            |own| self.inner.observe(own, recorded, heartbeat),
        )
    }

    fn health(
        &self,
        desired: &Desired,
        recorded: &[Item],
        pulse: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        self.on(desired, Some, |own| self.inner.health(own, recorded, pulse))
    }

    fn health_waits(&self) -> bool {
        self.inner.health_waits()
    }

    fn prunes_last(&self) -> bool {
        self.inner.prunes_last()
    }

    fn prune(
        &self,
        desired: &Desired,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        pulse: &Heartbeat,
    ) -> Result<Option<AssignmentResult>, ApplyError> {
        self.on(desired, Some, |own| {
            self.inner.prune(own, recorded, ledger, pulse)
        })
    }

    fn remove(
        &self,
        instead: u64,
        assignment: &str,
        recorded: &[Item],
        ledger: &mut dyn Ledger,
        heartbeat: &Heartbeat,
    ) -> Result<Vec<StepResult>, ApplyError> {
        self.inner
            .remove(instead, assignment, recorded, ledger, heartbeat)
    }
}
