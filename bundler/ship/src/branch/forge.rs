//! What a forge must be able to do, so that a commit waits for people before it is merged.
//!
//! What comes in: a branch with a commit, and what to say about it. What goes out: one open pull request.
//! It is a trait: which forges there are, and how they are asked, is no matter of what is proposed.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

/// What to say in a pull request.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// The branch with the commit.
    pub head: &'a str,
    /// The branch that it is for.
    pub base: &'a str,
    /// One line.
    pub title: &'a str,
    /// Markdown.
    pub body: &'a str,
}

/// An open pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// The names of its labels.
    pub labels: BTreeSet<String>,
}

/// What a forge must be able to do.
pub trait Forge: fmt::Debug {
    /// Why it was of no use.
    type Error: Error + 'static;

    /// The open pull request from `head` of the same repository into `base`.
    ///
    /// # Errors
    /// [`Forge::Error`] when it cannot be asked.
    fn find(&self, head: &str, base: &str) -> Result<Option<PullRequest>, Self::Error>;

    /// Opens one.
    ///
    /// # Errors
    /// [`Forge::Error`]; none is open then.
    fn open(&self, draft: &Draft<'_>) -> Result<PullRequest, Self::Error>;

    /// Gives it another title and text.
    ///
    /// # Errors
    /// [`Forge::Error`]; it is as it was.
    fn update(&self, number: u64, draft: &Draft<'_>) -> Result<PullRequest, Self::Error>;

    /// Puts a label on it, or takes it off; makes the label when the repository has none.
    ///
    /// # Errors
    /// [`Forge::Error`]; its labels are as they were.
    fn label(&self, number: u64, label: &str, wanted: bool) -> Result<(), Self::Error>;

    /// Closes it without merging.
    ///
    /// # Errors
    /// [`Forge::Error`]; it is open still.
    fn close(&self, number: u64) -> Result<(), Self::Error>;
}
