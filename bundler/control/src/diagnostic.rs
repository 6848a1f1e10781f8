//! What is wrong with a control plane, where exactly, and the way out of it.
//!
//! What comes in: findings from every stage, each with a place in a file. What goes out: all of them
//! at once, printed with the line and a caret, or as JSON, and the kind of failure that they amount to.
//! A finding never carries a path that the person did not give, nor a secret that stands in its line, and printing one never fails.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use outhaul_kit::failure::FailureClass;
use outhaul_kit::secrets;
use serde::Serialize;

mod print;

/// A file as it was read: what to call it, and its text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    /// What people know the file by: a path below the folder that they gave, or
    /// `<repository>@<commit>:<path>`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A place in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub file: Arc<SourceFile>,
    /// Byte offsets into its text.
    pub span: Range<usize>,
}

impl Location {
    /// The place `span` of `file`, clamped to its text.
    pub fn new(file: &Arc<SourceFile>, span: Range<usize>) -> Self {
        let end = span.end.min(file.text.len());
        Self {
            file: Arc::clone(file),
            span: span.start.min(end)..end,
        }
    }

    /// Line, from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// Column in characters, from 1.
    pub fn column(&self) -> usize {
        self.before()
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1
    }

    /// `file:line`, the form in which provenance is reported.
    pub fn file_line(&self) -> String {
        format!("{}:{}", self.file.name, self.line())
    }

    /// The secrets in its line, which is not shown then.
    fn secrets(&self) -> Vec<&str> {
        secrets::around(&self.file.text, self.span.start)
    }

    fn before(&self) -> &str {
        self.file.text.get(..self.span.start).unwrap_or_default()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.name, self.line(), self.column())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not what was meant; the result is still well defined.
    Warning,
    /// Nothing can be made of it.
    Error,
}

/// Whose business an error is: it decides the kind of the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// What someone wrote.
    Input,
    /// Disk, network, a missing program.
    Environment,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// A short stable name of the kind of finding, such as `unknown-field`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Whose business it is.
    pub cause: Cause,
    /// What happened, in one line, lower case, without a full stop.
    pub message: String,
    /// Where.
    pub location: Option<Location>,
    /// What to write beside the caret.
    pub label: String,
    /// Other places that explain it, each with a text.
    pub related: Vec<(Location, String)>,
    /// What to do next.
    pub help: Option<String>,
    /// Whether what stands at the place may be printed.
    pub shows_text: bool,
}

impl Diagnostic {
    /// An error in what someone wrote.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            cause: Cause::Input,
            message: message.into(),
            location: None,
            label: String::new(),
            related: Vec::new(),
            help: None,
            shows_text: true,
        }
    }

    /// A warning about what someone wrote.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, message)
        }
    }

    /// Something worth knowing about what someone wrote.
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            ..Self::error(code, message)
        }
    }

    /// An error of disk, network or a missing program.
    pub fn environment(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            cause: Cause::Environment,
            ..Self::error(code, message)
        }
    }

    /// The same finding with its place.
    #[must_use]
    pub fn at(mut self, location: &Location) -> Self {
        self.location = Some(location.clone());
        self
    }

    /// The same finding with its place, where that is known.
    #[must_use]
    pub fn at_any(mut self, location: Option<&Location>) -> Self {
        if let Some(location) = location {
            self = self.at(location);
        }
        self
    }

    /// The same finding, where what stands at its place is a secret: it is named by line and column alone.
    #[must_use]
    pub fn concealed(mut self) -> Self {
        self.shows_text = false;
        self
    }

    /// The same finding with a text beside the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The same finding with another place that explains it.
    #[must_use]
    pub fn related(mut self, location: &Location, text: impl Into<String>) -> Self {
        self.related.push((location.clone(), text.into()));
        self
    }

    /// The same finding with what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same finding, where nothing that is said of it has a secret of the lines that it is about: they are in no output and on no
    /// record then, whoever made it.
    fn without_secrets(mut self) -> Self {
        let places = self.location.iter();
        let places = places.chain(self.related.iter().map(|(location, _)| location));
        let secrets = places.flat_map(Location::secrets).map(str::to_owned);
        let secrets: Vec<String> = secrets.collect();
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let texts = [&mut self.message, &mut self.label];
        let texts = texts.into_iter().chain(&mut self.help);
        let related = self.related.iter_mut().map(|(_, text)| text);
        for text in texts.chain(related) {
            let said = secrets::without_settings(&secrets::without_tokens(text));
            *text = secrets::without(&said, &secrets);
        }
        self
    }

    /// What programs read.
    pub fn to_json(&self) -> serde_json::Value {
        let place = |location: &Location| {
            serde_json::json!({
                "file": location.file.name,
                "line": location.line(),
                "column": location.column(),
            })
        };
        serde_json::json!({
            "code": self.code,
            "severity": self.severity,
            "cause": self.cause,
            "message": self.message,
            "location": self.location.as_ref().map(place),
            "label": self.label,
            "related": self.related.iter().map(|(location, text)| {
                let mut related = place(location);
                related["text"] = text.clone().into();
                related
            }).collect::<Vec<_>>(),
            "help": self.help,
        })
    }
}

/// Findings, all of them and not only the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic.without_secrets());
    }

    /// Adds all of `other`.
    pub fn append(&mut self, other: Diagnostics) {
        self.0.extend(other.0);
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.0.iter().filter(|d| d.severity == severity).count()
    }

    /// Each of them, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// Sorted by file and place, whatever the commits are called, without repetitions: how people read them.
    pub fn sort(&mut self) {
        let key = |d: &Diagnostic| {
            let place = d
                .location
                .as_ref()
                .map(|l| (without_commit(&l.file.name), l.span.start));
            (
                place,
                std::cmp::Reverse(d.severity),
                d.code,
                d.message.clone(),
            )
        };
        self.0.sort_by_cached_key(key);
        self.0.dedup();
    }

    /// What they amount to for whoever cannot go on because of them: nothing without errors; what may pass where disk, network or a
    /// program failed, whatever else is wrong; else a mistake in what someone wrote.
    pub fn class(&self) -> Option<FailureClass> {
        match self.errors().map(|error| error.cause).max()? {
            Cause::Input => Some(FailureClass::Usage),
            Cause::Environment => Some(FailureClass::Environment),
        }
    }

    /// What they amount to for whoever asked what is wrong: nothing without errors and, where that is `strict`, without warnings; what
    /// may pass where disk, network or a program failed; else a finding, which is an answer and no mistake of usage.
    pub fn verdict(&self, strict: bool) -> Option<FailureClass> {
        match self.class() {
            Some(FailureClass::Environment) => Some(FailureClass::Environment),
            Some(_) => Some(FailureClass::Refused),
            None if strict && self.count(Severity::Warning) > 0 => Some(FailureClass::Refused),
            None => None,
        }
    }

    /// What they amount to where all of it was refused because of single assignments: others of the same control plane may be
    /// sound, so that it is a refusal and no mistake of usage; but not where disk, network or a program alone failed.
    pub fn refusal(&self) -> FailureClass {
        let is_environment = |error: &Diagnostic| error.cause == Cause::Environment;
        match !self.is_empty() && self.errors().all(is_environment) {
            true => FailureClass::Environment,
            false => FailureClass::Refused,
        }
    }

    fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
        self.0.iter().filter(is_error)
    }

    /// All of them as text, each with its line and a caret, and a last line that counts them.
    pub fn render(&self, colour: bool) -> String {
        print::render(self, colour)
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic.without_secrets()])
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(findings: I) -> Self {
        let findings = findings.into_iter();
        Self(findings.map(Diagnostic::without_secrets).collect())
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, iter: I) {
        let findings = iter.into_iter();
        self.0.extend(findings.map(Diagnostic::without_secrets));
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// A file's name without the commit in it: `URL@0123abcd:path` is `URL:path`.
fn without_commit(name: &str) -> String {
    let parts = name
        .rsplit_once('@')
        .and_then(|(url, rest)| Some((url, rest.split_once(':')?)));
    match parts {
        Some((url, (id, path))) if id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()) => {
            format!("{url}:{path}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
