//! One thing that a person should do something about, and the words that scripts know it by.
//!
//! What comes in: what is the matter, as one of these words, and two sentences for people. What goes out: an entry of `attention` in
//! the status. It finds nothing: the agent's `status` does.

use serde::Serialize;

/// What is the matter, as a word for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKind {
    /// A bundle waits for a person to approve it.
    Approval,
    /// A bundle waits while the site is held.
    Hold,
    /// A bundle waits for something on this site to say yes.
    Delay,
    /// A bundle waits for its maintenance window.
    Window,
    /// A bundle waits for its wave.
    Wave,
    /// A bundle waits for values of this site.
    Values,
    /// What a held assignment keeps is not here.
    HeldContent,
    /// A bundle may be applied now.
    Due,
    /// The newest bundle was left because it was not healthy.
    Health,
    /// The newest bundle was left because it could not be applied.
    Left,
    /// A bundle that was left may be tried again, and is not here any more.
    Approved,
    /// An assignment differs from what the active bundle says.
    Drift,
    /// Nobody answers for the apply helper.
    ApplyHelper,
    /// The disk has too little space.
    Space,
    /// A watched folder is not there.
    Watch,
    /// The key for what is sealed for this site is gone.
    SealKey,
    /// Files of an earlier memory were changed by hand.
    ChangedFiles,
    /// Files are in a folder that is the target no more.
    FormerTarget,
    /// What was lost with an earlier database, and a person may know.
    LostDatabase,
    /// Something that stands beside the database, or that it relies on, is missing.
    Missing,
    /// Something of a bundle that does not run is on this host.
    Leftovers,
    /// Stored files are missing or damaged.
    Content,
    /// The hub takes nothing of this site.
    HubRefuses,
    /// Reports of a former database have not reached the hub.
    RescuedReports,
    /// Restoring this site from a backup was interrupted at its very end.
    Restoring,
    /// The service follows other settings than `agent.toml` has now.
    Settings,
    /// A bundle could not be taken in, for a reason that can be mended on this machine.
    NotTaken,
}

/// One thing that a person should do something about.
#[derive(Debug, Clone, Serialize)]
pub struct Attention {
    /// What is the matter.
    pub what: AttentionKind,
    /// The same, for people.
    pub message: String,
    /// What to do next.
    pub help: String,
    /// The assignment that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment: Option<String>,
}

impl Attention {
    /// One that is about the whole site.
    pub fn of_site(what: AttentionKind, message: String, help: String) -> Self {
        Self {
            what,
            message,
            help,
            assignment: None,
        }
    }

    /// Whether it says already what to import.
    pub fn names_import(&self) -> bool {
        use AttentionKind::{Approved, Health, HeldContent, Left, Leftovers, NotTaken};
        matches!(
            self.what,
            Left | Health | Approved | HeldContent | Leftovers | NotTaken
        )
    }
}
