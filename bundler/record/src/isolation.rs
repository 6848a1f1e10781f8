//! Isolation: one broken assignment is one broken assignment.
//!
//! What comes in: the failures of a [`outhaul_plane::Rendering`], and someone who knows what a broken assignment
//! last was. What goes out: for each broken one that it is kept as it was, with its error and the
//! snapshot it is from, or that it is left out, and why. What is sound ships as it is. Nothing here
//! reads or writes.

use std::collections::{BTreeMap, BTreeSet};

use outhaul_bundle::Digest;
use serde::{Deserialize, Serialize};

use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_plane::schedule::AssignmentId;

/// A broken assignment that stays as it last was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Digest of the snapshot that its content was rendered from.
    pub from: Digest,
    /// Why the newest snapshot does not render to it, one finding a line.
    pub error: String,
}

/// What becomes of the broken assignments of one result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation<T> {
    /// Those that stay as they were.
    pub kept: BTreeMap<AssignmentId, (Kept, T)>,
    /// Those that nothing can stand in for, and why.
    pub left_out: BTreeMap<AssignmentId, String>,
    /// What is wrong with them that rendering did not find.
    pub findings: Diagnostics,
}

/// How much was written of what was to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// All of it: nothing is broken.
    Everything,
    /// All but what is broken, and the streams that wait for something.
    Rest,
    /// Nothing, because streams wait for something and no other has anything sound.
    NoStream,
    /// Nothing: all of it is broken, and there is no last good output.
    Nothing,
}

impl<T> Default for Isolation<T> {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            left_out: BTreeMap::new(),
            findings: Diagnostics::new(),
        }
    }
}

/// Which of the assignments that there were `before` are of workloads that cannot be read now, and why.
/// With each comes its workspace, where it is known; where it is not, whatever no workload brings any
/// more is taken for one of theirs: what runs must not be taken for removed.
pub fn lost<'b>(
    plane: &ControlPlane,
    before: impl IntoIterator<Item = (AssignmentId, Option<&'b str>)>,
) -> BTreeMap<AssignmentId, Diagnostics> {
    let mut found = BTreeMap::new();
    if plane.lost.is_empty() {
        return found;
    }
    for (id, workspace) in before {
        if plane.targets.contains_key(&id.target)
            || !plane.cluster_types.contains_key(&id.cluster_type)
        {
            continue;
        }
        let mut why = Diagnostics::new();
        for lost in plane.lost.values() {
            if workspace.is_none_or(|workspace| workspace == lost.workspace) {
                why.append(lost.findings.clone());
            }
        }
        if !why.is_empty() {
            found.insert(id, why);
        }
    }
    found
}

/// Decides for each of `failures` and `undecided` (see [`outhaul_plane::Rendering`]); `last` is asked once for
/// each, for its last good content and the snapshot that it is from, or why there is none. What is undecided and never ran
/// is not left out: nothing says that it should run.
pub fn isolate<'f, T>(
    failures: impl IntoIterator<Item = (&'f AssignmentId, &'f Diagnostics)>,
    undecided: impl IntoIterator<Item = (&'f AssignmentId, &'f Diagnostics)>,
    mut last: impl FnMut(&AssignmentId) -> Result<(Digest, T), String>,
) -> Isolation<T> {
    let mut isolation = Isolation::default();
    let failures = failures.into_iter().map(|one| (one, true));
    let undecided = undecided.into_iter().map(|one| (one, false));
    for ((id, findings), is_failure) in failures.chain(undecided) {
        match last(id) {
            Ok((from, content)) => {
                let error = one_line_each(findings);
                let kept = Kept { from, error };
                isolation.kept.insert(id.clone(), (kept, content));
            }
            Err(why) if is_failure => drop(isolation.left_out.insert(id.clone(), why)),
            Err(_) => {}
        }
    }
    isolation
}

/// Findings without the text around them: `file:line:column: message`.
pub fn one_line_each(findings: &Diagnostics) -> String {
    let lines: Vec<String> = findings
        .iter()
        .map(|finding| match &finding.location {
            Some(location) => format!("{location}: {}", finding.message),
            None => finding.message.clone(),
        })
        .collect();
    lines.join("\n")
}

impl<T> Isolation<T> {
    /// The kept ones, as a record states them.
    pub fn recorded(&self) -> BTreeMap<String, Kept> {
        let kept = self.kept.iter();
        kept.map(|(id, (kept, _))| (id.to_string(), kept.clone()))
            .collect()
    }

    /// The same without what the kept ones were.
    pub fn without_content(self) -> Isolation<()> {
        let kept = self.kept.into_iter();
        Isolation {
            kept: kept.map(|(id, (kept, _))| (id, (kept, ()))).collect(),
            left_out: self.left_out,
            findings: self.findings,
        }
    }

    /// Adds what became of others.
    pub fn append(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.left_out.extend(other.left_out);
        self.findings.append(other.findings);
    }

    /// Whether nothing was broken.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.left_out.is_empty()
    }

    /// How much is written of an environment beside them: of what was `rendered`, each `<cluster type>/<target>`, and of the `reused`
    /// assignments that were as good as before. Without `is_whole` a policy could not be followed or a workload not be read. With
    /// `is_stalled` streams wait for something.
    pub fn written(
        &self,
        rendered: impl IntoIterator<Item = String>,
        reused: usize,
        (is_whole, is_stalled): (bool, bool),
    ) -> Written {
        if self.is_empty() && is_whole {
            return Written::Everything;
        }
        let left_out: BTreeSet<String> = self.left_out.keys().map(ToString::to_string).collect();
        let mut rendered = rendered.into_iter();
        let is_sound =
            reused > 0 || self.is_empty() || rendered.any(|name| !left_out.contains(&name));
        match is_stalled {
            true if !is_sound => Written::NoStream,
            false if !is_sound && self.kept.is_empty() => Written::Nothing,
            _ => Written::Rest,
        }
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = &AssignmentId> {
        self.kept.keys().chain(self.left_out.keys())
    }

    /// One line for each broken assignment, for people.
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept.iter().map(|(id, (kept, _))| {
            let from = kept.from.short();
            (id, format!("kept: {id} stays as snapshot {from} had it"))
        });
        let left_out = self
            .left_out
            .iter()
            .map(|(id, why)| (id, format!("left out: {id}: {why}")));
        let mut lines: Vec<_> = kept.chain(left_out).collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(target: &str) -> AssignmentId {
        AssignmentId {
            cluster_type: "press".to_owned(),
            target: target.to_owned(),
        }
    }

    #[test]
    fn how_much_is_written_follows_from_what_is_sound_and_what_stays() {
        let rendered = |names: &[&str]| -> Vec<String> {
            let names = names.iter();
            names.map(|name| id(name).to_string()).collect()
        };
        let mut none = Isolation::<()>::default();
        let whole = (true, false);
        assert_eq!(none.written(rendered(&[]), 0, whole), Written::Everything);
        // A policy could not be followed: what there is was written.
        assert_eq!(
            none.written(rendered(&[]), 0, (false, false)),
            Written::Rest
        );
        none.left_out.insert(id("a"), "it is broken".to_owned());
        let left_out = none;
        assert_eq!(
            left_out.written(rendered(&["a"]), 0, whole),
            Written::Nothing
        );
        assert_eq!(
            left_out.written(rendered(&["a", "b"]), 0, whole),
            Written::Rest
        );
        // What is as before counts, although it was not rendered again.
        assert_eq!(left_out.written(rendered(&["a"]), 1, whole), Written::Rest);
        let stalled = (true, true);
        assert_eq!(
            left_out.written(rendered(&[]), 0, stalled),
            Written::NoStream
        );
        assert_eq!(
            left_out.written(rendered(&["b"]), 0, stalled),
            Written::Rest
        );
        let mut kept = left_out;
        let stays = Kept {
            from: Digest::of(b"a"),
            error: String::new(),
        };
        kept.kept.insert(id("c"), (stays, ()));
        assert_eq!(kept.written(rendered(&["a"]), 0, whole), Written::Rest);
        assert_eq!(
            kept.written(rendered(&["a"]), 0, stalled),
            Written::NoStream
        );
    }
}
