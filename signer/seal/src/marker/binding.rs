//! Where a sealed value belongs: fleet, environment, workloads, and the key that it is the value of.
//!
//! What comes in: names. What goes out: a [`Binding`], with a text that stands in the marker for people and for the
//! centre, and once more under the seal, where nobody can change it. A value is opened only where both are
//! the same and the place is one of those named: a marker that is copied into another team's file, another
//! environment or another fleet stays closed there. No list in it is empty: nothing means everyone.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::{MarkerError, MarkerProblem};

/// Longest binding in bytes.
pub const MAX_BINDING_BYTES: usize = 2 * 1024;
/// What stands before the binding under the seal.
const HEAD: &str = "outhaul.dev/sealed-value/v1\n";

/// Where a value may be opened, and which key it is the value of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    fleet: String,
    environment: String,
    workloads: BTreeSet<String>,
    key: String,
}

/// Where a marker was found: what its binding must name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkerContext<'a> {
    /// The fleet's id.
    pub fleet: &'a str,
    /// The environment.
    pub environment: &'a str,
    /// The workload.
    pub workload: &'a str,
}

impl Binding {
    /// A binding to `key` of each of `workloads` in `environment` of `fleet`.
    ///
    /// # Errors
    /// [`MarkerError::Value`] when a name is empty, too long or has characters other than `A-Z a-z 0-9 . _ -`,
    /// or no workload is named.
    pub fn new(
        fleet: &str,
        environment: &str,
        workloads: impl IntoIterator<Item = String>,
        key: &str,
    ) -> Result<Self, MarkerError> {
        let problem = "a sealed value is bound to a fleet, an environment, at least one workload and a key, \
                       each written with `A-Z a-z 0-9 . _ -`";
        let refuse = MarkerError::Value { problem };
        let binding = Self {
            fleet: fleet.to_owned(),
            environment: environment.to_owned(),
            workloads: workloads.into_iter().collect(),
            key: key.to_owned(),
        };
        let names = [&binding.fleet, &binding.environment, &binding.key];
        let sound = names
            .into_iter()
            .chain(&binding.workloads)
            .all(|name| is_name(name));
        if !sound || binding.workloads.is_empty() || binding.to_string().len() > MAX_BINDING_BYTES {
            return Err(refuse);
        }
        Ok(binding)
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What of `place` it does not name, if anything.
    ///
    /// # Errors
    /// [`MarkerProblem::Elsewhere`]
    pub fn check(&self, place: &MarkerContext<'_>) -> Result<(), MarkerProblem> {
        self.check_fleet(place.fleet)?;
        self.check_names(place.environment, place.workload)
    }

    /// As [`Binding::check`], of the fleet alone.
    ///
    /// # Errors
    /// [`MarkerProblem::Elsewhere`]
    pub fn check_fleet(&self, fleet: &str) -> Result<(), MarkerProblem> {
        elsewhere("fleet", &self.fleet, fleet, self.fleet == fleet)
    }

    /// As [`Binding::check`], where the fleet is not known yet.
    ///
    /// # Errors
    /// [`MarkerProblem::Elsewhere`]
    pub fn check_names(&self, environment: &str, workload: &str) -> Result<(), MarkerProblem> {
        let same = self.environment == environment;
        elsewhere("environment", &self.environment, environment, same)?;
        let workloads = self.listed();
        let same = self.workloads.contains(workload);
        elsewhere("workload", &workloads, workload, same)
    }

    fn listed(&self) -> String {
        let names: Vec<_> = self.workloads.iter().map(String::as_str).collect();
        names.join("+")
    }

    /// What is sealed: the binding, and then the value.
    pub(super) fn around(&self, value: &str) -> String {
        format!("{HEAD}{self}\n{value}")
    }

    /// The value in what was opened, when it is bound as the marker states.
    pub(super) fn value_in<'a>(&self, opened: &'a str) -> Result<&'a str, MarkerProblem> {
        let rest = opened.strip_prefix(HEAD).ok_or(MarkerProblem::Unbound)?;
        let (bound, value) = rest.split_once('\n').ok_or(MarkerProblem::Unbound)?;
        if bound == self.to_string() {
            Ok(value)
        } else {
            Err(MarkerProblem::Relabelled)
        }
    }
}

fn elsewhere(what: &'static str, bound: &str, here: &str, same: bool) -> Result<(), MarkerProblem> {
    if same {
        return Ok(());
    }
    Err(MarkerProblem::Elsewhere {
        what,
        bound: bound.to_owned(),
        here: here.to_owned(),
    })
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
}

/// `fleet/environment/workload+workload/key`.
impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fleet,
            environment,
            key,
            ..
        } = self;
        write!(f, "{fleet}/{environment}/{}/{key}", self.listed())
    }
}

impl FromStr for Binding {
    type Err = MarkerError;

    fn from_str(text: &str) -> Result<Self, MarkerError> {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        let (fleet, environment, workloads, key) = (next(), next(), next(), next());
        let workloads = workloads.split('+').map(str::to_owned);
        let binding = Self::new(fleet, environment, workloads, key)?;
        // One spelling alone: sorted, nothing after the key.
        if binding.to_string() == text {
            return Ok(binding);
        }
        let problem = "the names before a sealed value are not as they were written";
        Err(MarkerError::Value { problem })
    }
}
