//! Messages: many alerts as one, so that a fleet that loses its network is one message and not a thousand.
//!
//! What comes in: numbered alerts, the oldest first. What goes out: the JSON of a webhook, and subject and text of a mail. It is
//! pure; what a site reports is made one line of visible characters, and bounded.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{ALERT_FORMAT, AlertEntry, AlertMessage};
use outhaul_kit::format_count::format_count;

/// Most characters of a message that an alert quotes.
const MAX_QUOTED: usize = 500;
/// Most characters of a mail's subject.
const MAX_SUBJECT: usize = 120;

/// One message to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// For programs.
    pub body: AlertMessage,
    /// Where the hub's pages are, if that is known.
    pub hub: Option<String>,
}

impl Message {
    /// All of `entries` as one message of `fleet` to `destination`.
    pub fn of(fleet: &str, destination: &str, hub: Option<&str>, entries: Vec<AlertEntry>) -> Self {
        let mut numbers = destination.to_owned();
        for entry in &entries {
            let _ = write!(numbers, " {}", entry.number);
        }
        let id = Digest::of(format!("{fleet} {numbers}").as_bytes()).hex();
        let mut more = BTreeMap::new();
        let mut alerts = Vec::new();
        for (at, mut entry) in entries.into_iter().enumerate() {
            if at < AlertMessage::SHOWN {
                entry.message = one_line(&entry.message, MAX_QUOTED);
                alerts.push(entry);
            } else {
                let of = format!("{} {}", entry.kind, one_line(&entry.status, 40));
                *more.entry(of).or_default() += 1;
            }
        }
        Self {
            body: AlertMessage {
                format: ALERT_FORMAT.to_owned(),
                id: id.get(..32).unwrap_or(&id).to_owned(),
                fleet: fleet.to_owned(),
                alerts,
                more,
            },
            hub: hub.map(ToOwned::to_owned),
        }
    }

    /// How many alerts it is about.
    pub fn count(&self) -> u64 {
        self.body.more.values().sum::<u64>() + self.body.alerts.len() as u64
    }

    /// The subject of a mail: one line.
    pub fn subject(&self) -> String {
        let text = match (self.count(), self.body.alerts.first()) {
            (1, Some(one)) => format!("{} {}: {}", one.kind, one.subject, one.status),
            (count, _) => {
                let is_bad = |entry: &&AlertEntry| entry.severity == "bad";
                let bad = self.body.alerts.iter().filter(is_bad).count();
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                format!(
                    "{}, {bad} of those listed bad",
                    format_count(count, "alert", "alerts")
                )
            }
        };
        one_line(
            &format!("[outhaul {}] {text}", self.body.fleet),
            MAX_SUBJECT,
        )
    }

    /// The text of a mail.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.body.alerts {
            let environment = entry
                .environment
                .as_deref()
                .map_or_else(String::new, |name| format!(" ({})", one_line(name, 80)));
            let was = match entry.was.as_str() {
                "" => String::new(),
                was => format!(", was {}", one_line(was, 40)),
            };
            let (kind, subject) = (&entry.kind, one_line(&entry.subject, 120));
            let status = one_line(&entry.status, 40);
            let _ = writeln!(
                text,
                "{}  {kind} {subject}{environment}: {status}{was}",
                entry.at
            );
            if !entry.message.is_empty() {
                let _ = writeln!(text, "    {}", entry.message);
            }
        }
        for (of, count) in &self.body.more {
            let _ = writeln!(text, "and {count} more: {of}");
        }
        if !self.body.more.is_empty() {
            let _ = writeln!(text, "`outhaul-hub alerts list` shows each of them.");
        }
        if let Some(hub) = &self.hub {
            let _ = writeln!(text, "\n{hub}");
        }
        let _ = writeln!(
            text,
            "\nMessage {} of fleet {}",
            self.body.id, self.body.fleet
        );
        text
    }
}

/// `text` on one line, of visible characters, at most `most` of them.
fn one_line(text: &str, most: usize) -> String {
    let visible = |c: char| match c.is_control() {
        true => ' ',
        false => c,
    };
    let line: String = text.chars().map(visible).take(most).collect();
    match text.chars().nth(most) {
        None => line.trim().to_owned(),
        Some(_) => format!("{}…", line.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn entry(number: u64, status: &str, message: &str) -> AlertEntry {
        AlertEntry {
            number,
            at: "2026-11-26T12:00:00Z".to_owned(),
            kind: "site".to_owned(),
            subject: format!("press-{number}"),
            environment: Some("stage".to_owned()),
            severity: "bad".to_owned(),
            was: "ok".to_owned(),
            status: status.to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn one_alert_has_its_own_subject_and_a_thousand_are_counted() {
        let one = Message::of(
            "f1",
            "mail",
            None,
            vec![entry(7, "failed", "no\r\nBcc: x@y")],
        );
        assert_eq!(one.subject(), "[outhaul f1] site press-7: failed");
        assert!(one.text().contains("    no  Bcc: x@y\n"), "{}", one.text());
        let many: Vec<_> = (1..=1000).map(|at| entry(at, "stale", "")).collect();
        let message = Message::of("f1", "mail", Some("https://hub.example"), many.clone());
        assert_eq!(
            message.subject(),
            "[outhaul f1] 1,000 alerts, 100 of those listed bad"
        );
        assert_eq!(message.body.alerts.len(), 100);
        assert_eq!(message.body.more["site stale"], 900);
        assert!(message.text().contains("and 900 more: site stale\n"));
        assert_eq!(
            Message::of("f1", "mail", None, many.clone()).body.id,
            message.body.id
        );
        assert_ne!(
            Message::of("f1", "other", None, many).body.id,
            message.body.id
        );
    }

    #[test]
    fn the_documents_example_is_one() {
        let page = include_str!("../../../docs/hub-alerts.md");
        let block = page.split("```json\n").nth(1).unwrap();
        let example: AlertMessage =
            serde_json::from_str(block.split("```").next().unwrap()).unwrap();
        assert_eq!(example.format, ALERT_FORMAT);
    }

    #[test]
    fn attack_a_name_that_would_be_a_header_stays_within_the_subject() {
        let mut one = entry(1, "failed", "");
        one.subject = "press\r\nBcc: someone@example.org\r\n".to_owned();
        let subject = Message::of("f1", "mail", None, vec![one]).subject();
        assert!(!subject.contains(['\r', '\n']), "{subject:?}");
    }
}
