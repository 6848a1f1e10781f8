//! Import: what a Kalypso control plane and its platform repository would become with Outhaul.
//!
//! What comes in: one environment to load, and what its platform repository holds. What goes out: a
//! [`ImportReport`]: for every folder whether Outhaul writes the same bytes, and if not, why: which of
//! Kalypso's numbered defects, a torn render, an older state, someone else's files. It reads and never
//! writes; [`classify`] is pure, only [`history`] looks at other commits, and no more than it is asked to.

use std::collections::BTreeMap;

use outhaul_control::Diagnostics;
use outhaul_load::LoadRequest;
use outhaul_load::pipeline::{self, Platform};
use outhaul_plane::compose::Mode;
use outhaul_plane::render::PROMOTED_COMMIT_FILE;

pub mod classify;
mod evidence;
mod excerpt;
pub mod history;
pub mod platform_repository;
pub mod report;

/// Files by path.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// What a folder of the platform repository is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Byte for byte what Outhaul writes.
    Equal,
    /// Other bytes, because of defects of Kalypso, or its older rule for namespaces.
    Differs,
    /// What an earlier state of the control plane gives, and consistent with that.
    Older,
    /// Not what the recorded commit gives: its content came from another one.
    Torn,
    /// Nothing that Kalypso wrote.
    Foreign,
    /// Outhaul writes it; it is not there, for a known reason.
    Missing,
    /// No reason was found.
    Unexplained,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 7] = [
        Self::Equal,
        Self::Differs,
        Self::Older,
        Self::Torn,
        Self::Foreign,
        Self::Missing,
        Self::Unexplained,
    ];

    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Differs => "differs",
            Self::Older => "older",
            Self::Torn => "torn",
            Self::Foreign => "foreign",
            Self::Missing => "missing",
            Self::Unexplained => "unexplained",
        }
    }
}

/// One folder (`<cluster type>/<target>`), or what else lies there, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its path; a cluster type's own folder stands for its `README.md`.
    pub path: String,
    /// What it is.
    pub verdict: Verdict,
    /// Numbers of Kalypso's defects that explain it, sorted.
    pub defects: Vec<u8>,
    /// Whether `--compat` writes it as it is.
    pub compat: bool,
    /// Whether it follows the rule for namespaces of before 2023-10-03.
    pub older_namespace: bool,
    /// Why, in lines for people.
    pub reasons: Vec<String>,
    /// The commit that its content came from, where that was searched and found.
    pub commit: Option<String>,
    /// What would change: `-` is there, `+` is what Outhaul writes; a few lines of it.
    pub diff: Vec<String>,
}

impl Folder {
    fn new(path: &str, verdict: Verdict) -> Self {
        Self {
            path: path.to_owned(),
            verdict,
            defects: Vec::new(),
            compat: false,
            older_namespace: false,
            reasons: Vec::new(),
            commit: None,
            diff: Vec::new(),
        }
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(reason.into());
        self
    }
}

/// What was found of one environment.
#[derive(Debug, Clone)]
pub struct ImportReport {
    /// The environment.
    pub environment: String,
    /// The platform repository, and where in it was looked.
    pub platform: platform_repository::Searched,
    /// The commit that the platform repository says it was made of.
    pub recorded: Option<String>,
    /// The commit that the control plane pins.
    pub pinned: Option<String>,
    /// Every folder, by path.
    pub folders: Vec<Folder>,
}

impl ImportReport {
    /// How many folders are of a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.folders
            .iter()
            .filter(|folder| folder.verdict == verdict)
            .count()
    }
}

/// One control plane as both modes see it.
#[derive(Debug)]
pub struct Views {
    /// As Outhaul renders it.
    pub right: Platform,
    /// As Kalypso would.
    pub compat: Platform,
}

impl Views {
    /// Loads and renders in both modes, from the same commits.
    ///
    /// # Errors
    /// Every finding, when the control plane cannot be read whole.
    pub fn of(request: &LoadRequest) -> Result<Self, Diagnostics> {
        let right = pipeline::run_whole(request, Mode::default(), None)?;
        let snapshot = right.rendering.snapshot.clone();
        let compat = pipeline::run_whole(request, Mode { compat: true }, Some(&snapshot))?;
        Ok(Self { right, compat })
    }
}

/// The commit that a platform repository says it was made of.
pub fn recorded(there: &Tree) -> Option<String> {
    let text = there.get(PROMOTED_COMMIT_FILE)?;
    let text = String::from_utf8_lossy(text).trim().to_owned();
    (!text.is_empty()).then_some(text)
}
