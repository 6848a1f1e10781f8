//! Manifests that are not read, each once, whatever number of assignments it is of.
//!
//! What comes in: those of each assignment, and what its delivery policies say. What goes out: an error where images travel, since no
//! bundle is made with it then, and a warning elsewhere. It reads nothing.

use outhaul_control::diagnostic::Diagnostic;
use outhaul_needs::Unread;

#[derive(Debug, Default)]
pub(crate) struct NotRead(Vec<(Unread, bool)>);

impl NotRead {
    /// Notes `found`; `fails` where images travel.
    pub(crate) fn note(&mut self, found: impl Iterator<Item = Unread>, fails: bool) {
        for unread in found {
            match self.0.iter_mut().find(|(one, _)| *one == unread) {
                Some((_, known)) => *known |= fails,
                None => self.0.push((unread, fails)),
            }
        }
    }

    /// The findings; while bundles are being made, what fails was said before.
    pub(crate) fn findings(&self, bundling: bool) -> impl Iterator<Item = Diagnostic> {
        let left = self
            .0
            .iter()
            .filter(move |(_, fails)| !(bundling && *fails));
        left.map(|(unread, fails)| match fails {
            true => unread.finding(Diagnostic::error),
            false => unread.finding(Diagnostic::warning),
        })
    }
}
