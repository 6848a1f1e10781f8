//! What `--output json` prints, in all programs: one envelope around a command's result.
//!
//! What comes in: what a command found, and how it ended. What goes out: a JSON document of which the form is
//! [`API_VERSION`]; `docs/command-line.md` describes it. Characters that would control a terminal are
//! escaped, so that the document stays the same value.

use serde::Serialize;
use serde_json::Value;

use crate::text;

/// The version of the envelope. A field may be added under the same version; one that changes or goes
/// makes a new one.
pub const API_VERSION: &str = "outhaul.dev/cli/v1";

/// One command's outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// The program and its subcommands, such as `outhaul site enrol`.
    pub command: String,
    /// Whether the exit code is 0.
    pub ok: bool,
    /// The process's exit code.
    pub exit_code: u8,
    /// What the command found or did; null when it came to nothing.
    pub result: Value,
    /// How many entries the list in `result` leaves out; not there where it is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// What is wrong or suspicious in what someone wrote, each with its place.
    pub findings: Vec<Value>,
    /// Why the command did not do what was asked.
    pub errors: Vec<ErrorObject>,
}

/// Why a command did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorObject {
    /// The class of the error: `refused`, `usage`, `environment`, `trust` or `internal`.
    pub kind: &'static str,
    /// What happened, as on standard error.
    pub message: String,
    /// What to do next, as on standard error.
    pub help: Vec<String>,
    /// Where it is written, when the message states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// A place in a file, as in a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Location {
    /// The file's name, as it is printed.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// From 1.
    pub column: u64,
}

impl Location {
    /// The place that a line of a message begins with: `file:3:14`, after an arrow or not.
    fn read(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let place = line.strip_prefix("--> ").unwrap_or(line);
        let place = place.split_once(' ').map_or(place, |(place, _)| place);
        let mut parts = place.trim_end_matches(':').rsplitn(3, ':');
        let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            file: Some(file.trim_matches('`'))
                .filter(|file| !file.is_empty())?
                .to_owned(),
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        })
    }
}

impl Envelope {
    pub(super) fn new(command: &str, exit_code: u8) -> Self {
        Self {
            api_version: API_VERSION,
            command: command.to_owned(),
            ok: exit_code == 0,
            exit_code,
            result: Value::Null,
            left_out: None,
            findings: Vec::new(),
            errors: Vec::new(),
        }
    }

    pub(super) fn document(&self) -> String {
        self.print(serde_json::to_string_pretty)
    }

    pub(super) fn line(&self) -> String {
        self.print(serde_json::to_string)
    }

    fn print(&self, print: impl Fn(&Self) -> serde_json::Result<String>) -> String {
        // Names and values are text, so that this cannot fail; a document that states the failure is better than none.
        let text = print(self).unwrap_or_else(|error| {
            serde_json::json!({
                "apiVersion": API_VERSION, "command": self.command, "ok": false, "exitCode": 5,
                "result": null, "findings": [],
                "errors": [{ "kind": "internal", "message": error.to_string(), "help": [] }],
            })
            .to_string()
        });
        text::json(&text).into_owned()
    }
}

impl ErrorObject {
    /// Reads errors as they are printed: each begins with `error: `, its help follows with `help: `.
    pub(super) fn read(code: u8, text: &str) -> Vec<Self> {
        let mut problems: Vec<Self> = Vec::new();
        let mut in_help = false;
        for line in text.lines() {
            let start = line.strip_prefix("error: ");
            if start.is_some() || problems.is_empty() {
                in_help = false;
                problems.push(Self {
                    kind: kind(code),
                    message: start.unwrap_or(line).to_owned(),
                    help: Vec::new(),
                    location: Location::read(start.unwrap_or(line)),
                });
                continue;
            }
            let Some(problem) = problems.last_mut() else {
                continue;
            };
            let line = line.trim();
            if let Some(help) = line
                .strip_prefix("help: ")
                .or_else(|| line.strip_prefix("tip: "))
            {
                in_help = true;
                problem.help.push(help.to_owned());
            } else if let (true, Some(help)) = (in_help, problem.help.last_mut()) {
                continue_with(help, line);
            } else {
                problem.location = problem.location.take().or_else(|| Location::read(line));
                continue_with(&mut problem.message, line);
            }
        }
        problems
    }
}

fn continue_with(text: &mut String, line: &str) {
    if !line.is_empty() {
        text.push('\n');
        text.push_str(line);
    }
}

fn kind(code: u8) -> &'static str {
    match code {
        0 | 1 => "refused",
        2 => "usage",
        3 => "environment",
        4 => "trust",
        _ => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_as_they_are_printed() {
        let text =
            "error: cannot write\n  - the disk is full\nhelp: free some space\n  with rm\nerror: b";
        let read = ErrorObject::read(3, text);
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].message, "cannot write\n- the disk is full");
        assert_eq!(read[0].help, ["free some space\nwith rm"]);
        assert_eq!(
            (read[1].kind, read[1].message.as_str()),
            ("environment", "b")
        );
    }

    #[test]
    fn an_error_has_the_place_that_its_text_begins_with() {
        let place = |file: &str| {
            Some(Location {
                file: file.to_owned(),
                line: 3,
                column: 14,
            })
        };
        for (text, expected) in [
            (
                "error: outhaul.toml:3:14: unknown key",
                place("outhaul.toml"),
            ),
            (
                "error: wrong\n  --> https://git.example/x@1234:dev/a.yaml:3:14\nhelp: no",
                place("https://git.example/x@1234:dev/a.yaml"),
            ),
            ("error: cannot reach 127.0.0.1:80:", None),
            ("error: expected: 3:14 of it", None),
            ("error: a::14", None),
        ] {
            assert_eq!(ErrorObject::read(2, text)[0].location, expected, "{text}");
        }
    }

    #[test]
    fn what_would_control_a_terminal_is_escaped_and_stays_the_same_value() {
        let name = "a\u{9b}31m\u{202e}\u{7f}";
        let envelope = Envelope {
            result: name.into(),
            ..Envelope::new("outhaul x", 0)
        };
        let text = envelope.document();
        assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{7f}']), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["result"], name);
        assert_eq!(back["apiVersion"], API_VERSION);
        assert!(!envelope.line().contains('\n'));
    }
}
