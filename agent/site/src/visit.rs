//! A stick or folder that was read, as a site remembers it: for `status`, and for who starts after a power cut.
//!
//! What comes in: what its reader noted, and what stands of bundles now. What goes out: one line about it. It opens no medium.

use outhaul_kit::text;
use serde::{Deserialize, Serialize};

/// A stick or folder that was read.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact by itself, under its name in what earlier agents stored"
)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// Where it was.
    pub place: String,
    /// When, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// Whether it is still being read or written: it must not be removed.
    pub busy: bool,
    /// What came of it, in one line.
    pub text: String,
    /// Whether it was one file, not a stick or folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_file: bool,
    /// The bundle that it has, when the work on that could not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<u64>,
    /// The bundle that it has, and the state that it was left in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<(u64, String)>,
    /// Whether that bundle was here already when it was read: nothing was copied from it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_here: bool,
    /// While it is being read, the newest bundle that was here before; 0 where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_before: Option<u64>,
    /// Whether its reader was stopped before anything was copied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    /// What the service wrote to it, where it has a folder for reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<Reports>,
}

/// The reports that the service wrote to a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    /// How many, since it was put in.
    pub written: u64,
    /// The number of the last one; 0 before the first.
    pub up_to: u64,
    /// When it was last written to, milliseconds since 1970 by the site's clock.
    pub at_ms: i64,
    /// Whether it is being written to: it must not be removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writing: bool,
    /// Why what waits could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Ends what is said of a place that nobody reads or writes.
pub const REMOVABLE: &str = "; it is safe to remove now";

impl Reports {
    /// How writing ended, and what is there now: how many, up to which number.
    pub fn ended(&mut self, written: u64, up_to: u64, problem: Option<&str>) {
        self.writing = false;
        self.written = written;
        self.up_to = up_to;
        self.problem = problem.map(|problem| text::printable(problem).into_owned());
    }

    /// One part of the line about a place.
    fn sentence(&self) -> String {
        let written = match self.written {
            1 => "1 report written".to_owned(),
            many => format!("{many} reports written"),
        };
        match &self.problem {
            None => written,
            Some(problem) => {
                let which = match self.written {
                    0 => "reports were not written".to_owned(),
                    _ => format!("{written}, newer ones were not"),
                };
                format!(
                    "{which}: {problem}; fix that: the service tries again where it runs, while it stays plugged in, or run \
                     `outhaul-agent export`"
                )
            }
        }
    }
}

impl Visit {
    /// Whoever was reading it is gone: says so, of one that was still being read; `unfinished` is a bundle
    /// that was already copied whole, and on which work had begun, `newest` the newest that is here.
    pub fn cut_off(&mut self, unfinished: Option<u64>, newest: Option<u64>) {
        if self.busy {
            self.busy = false;
            self.blocked = unfinished;
            let before = self.newest_before.take();
            let is_new = |number: &u64| before.is_some_and(|before| *number > before);
            let is_old = |number| before.is_some_and(|before| number <= before);
            self.was_here = unfinished.is_some_and(is_old);
            let done = newest.filter(|_| unfinished.is_none()).filter(is_new);
            if let Some(number) = done {
                // The work on it was done when its reader was stopped: how it stands is said when someone asks.
                self.left = Some((number, String::new()));
                self.text = format!("bundle {number} was copied from it{REMOVABLE}");
                return;
            }
            self.cut_off = unfinished.is_none();
            self.text = match unfinished {
                None => "reading it was interrupted; nothing of it is half done; import it again; it is safe to \
                         remove now"
                    .to_owned(),
                Some(number) => format!(
                    "bundle {number} {}, and the work on that is unfinished{REMOVABLE}",
                    self.came()
                ),
            };
        }
    }

    /// Where its bundle came from, in words.
    pub fn came(&self) -> &'static str {
        match self.was_here {
            true => "was here already when it was read",
            false => "was copied from it",
        }
    }

    /// Adds what was written to it to the line; `at_work`: whether someone may still be writing.
    pub fn tell_of_reports(&mut self, at_work: bool) {
        let Some(reports) = &mut self.reports else {
            return;
        };
        reports.writing &= at_work;
        if self.busy {
            return;
        }
        if reports.writing {
            self.busy = true;
            "reports are being written to it: do not remove it".clone_into(&mut self.text);
            return;
        }
        let read = self.text.strip_suffix(REMOVABLE).unwrap_or(&self.text);
        self.text = format!("{read}; {}{REMOVABLE}", reports.sentence());
    }
}
