//! Pushes to a collector: one body, one answer, and what is to be said about it.
//!
//! What comes in: settings and a body. What goes out: a [`PushResult`]. A push is never sent twice: the next one says all that it said
//! and more, because values are cumulative. Redirects are not followed and no proxy is used, so that headers reach the address
//! that was given and no other. Each step has a time limit, and of an answer no more than a bounded part is read.

use std::time::Duration;

use outhaul_http::{Authority, Client, ClientSettings, Method, Response, TimeLimits, quoted};
use serde::Deserialize;

use crate::settings::{OtlpSettings, headers};

/// A name and its value, which is a secret.
type Header = (String, String);

/// Until a connection stands, until an answer begins, and for all of a push.
const LIMITS: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];
/// Most bytes read of an answer.
const ANSWER_BYTES: u64 = 16 * 1024;
/// What is shown instead of a header's value.
const HIDDEN: &str = "(not shown)";
/// The longest that a collector may ask to be left alone.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What became of one push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushResult {
    /// The collector took all of it.
    Taken,
    /// It took the push and rejected some values.
    Partial {
        /// How many, by its own word.
        rejected: u64,
        /// What it said.
        message: String,
    },
    /// It answered with something else.
    Refused {
        /// Status and what it said.
        problem: String,
        /// How long it asked to be left alone.
        wait: Option<Duration>,
    },
    /// No answer: no connection, no TLS, or too late; or the headers cannot be read.
    Failed {
        /// Why.
        problem: String,
    },
}

impl PushResult {
    /// What went wrong, as one sentence.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Taken => None,
            Self::Partial { rejected, message } => Some(format!(
                "the collector rejected {rejected} values{}",
                quoted(message)
            )),
            Self::Refused { problem, .. } | Self::Failed { problem } => Some(problem.clone()),
        }
    }
}

/// Pushes once.
pub fn push(settings: &OtlpSettings, body: &[u8]) -> PushResult {
    let headers = match settings.headers.as_deref().map(headers).transpose() {
        Ok(headers) => headers.unwrap_or_default(),
        Err(error) => {
            let problem = error.to_string();
            return PushResult::Failed { problem };
        }
    };
    let result = sent(settings, body, &headers);
    result.map_or_else(
        |problem| PushResult::Failed { problem },
        |answer| push_result(answer, &headers),
    )
}

fn sent(settings: &OtlpSettings, body: &[u8], headers: &[Header]) -> Result<Response, String> {
    let authority = Authority::of(settings.is_tls(), settings.ca.as_deref());
    let [connect, answer, whole] = LIMITS.map(Some);
    let agent = concat!("outhaul-hub/", env!("CARGO_PKG_VERSION"));
    let client = Client::new(&ClientSettings {
        limits: TimeLimits {
            connect,
            answer,
            body: answer,
            whole,
        },
        ..ClientSettings::new(agent, authority)
    });
    let client = client.map_err(|error| error.problem())?;
    let mut request = client
        .request(Method::POST, settings.url())
        .header("Content-Type", "application/json");
    for (name, value) in headers {
        request = request.secret_header(name, value);
    }
    request.send_bytes(body).map_err(|error| error.problem())
}

fn push_result(answer: Response, headers: &[Header]) -> PushResult {
    let (status, text) = (answer.status(), answer.status_text());
    let wait = match status {
        // Only a whole answer says that all of it was taken: one that breaks off may be the beginning of one that says otherwise.
        200..=299 => {
            return match answer.bytes(ANSWER_BYTES) {
                Ok(body) => taken(&body, headers),
                Err(error) => PushResult::Failed {
                    problem: format!(
                        "the collector answered {text}, and the rest of its answer cannot be read: {}",
                        error.problem()
                    ),
                },
            };
        }
        429 | 502..=504 => answer.header("Retry-After").and_then(retry_after),
        _ => None,
    };
    let problem = match status {
        300..=399 => {
            format!("the collector answered {text}, which is not followed: give its address")
        }
        _ => {
            let said = without(answer.excerpt(ANSWER_BYTES), headers);
            format!("the collector answered {text}{}", quoted(&said))
        }
    };
    PushResult::Refused { problem, wait }
}

/// What was said without the values of the headers, to be shown: some servers repeat what they were sent.
fn without(said: String, headers: &[Header]) -> String {
    let values = headers.iter().flat_map(|(_, value)| {
        let parts = value.split_whitespace().filter(|part| part.len() >= 6);
        std::iter::once(value.as_str()).chain(parts)
    });
    values
        .filter(|value| !value.is_empty())
        .fold(said, |said, value| {
            // Inside JSON that is shown as it came, a value has its quotes and backslashes escaped.
            let escaped = serde_json::json!(value).to_string();
            let said = said.replace(value, HIDDEN);
            said.replace(escaped.trim_matches('"'), HIDDEN)
        })
}

/// Seconds of the header; a date is not read, and then the next push comes at its time.
fn retry_after(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// A whole answer that a push was taken, which may say that some of it was not. It is read as it came: only what is shown of it
/// is without the values of the headers.
fn taken(said: &[u8], headers: &[Header]) -> PushResult {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        #[serde(default)]
        partial_success: Option<PartialSuccess>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PartialSuccess {
        #[serde(default)]
        rejected_data_points: Number,
        #[serde(default)]
        error_message: String,
    }
    // 64-bit numbers are text in this form; some write numbers.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Is(u64),
        Text(String),
    }
    impl Default for Number {
        fn default() -> Self {
            Self::Is(0)
        }
    }
    // Many collectors answer nothing at all.
    if said.trim_ascii().is_empty() {
        return PushResult::Taken;
    }
    let is_object = said.trim_ascii_start().starts_with(b"{");
    let answer = serde_json::from_slice::<Answer>(said).ok();
    let Some(answer) = answer.filter(|_| is_object) else {
        let said = without(String::from_utf8_lossy(said).into_owned(), headers);
        let problem = format!(
            "what answered is not a collector: it is not the JSON of one{}",
            quoted(&said)
        );
        return PushResult::Failed { problem };
    };
    let Some(partial) = answer.partial_success else {
        return PushResult::Taken;
    };
    let rejected = match &partial.rejected_data_points {
        Number::Is(number) => *number,
        Number::Text(text) => text.parse().unwrap_or(0),
    };
    match rejected {
        // A message without rejected values is advice, which nothing is lost by.
        0 => PushResult::Taken,
        rejected => PushResult::Partial {
            rejected,
            message: without(partial.error_message, headers),
        },
    }
}

/// How often each came, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushCounts {
    taken: u64,
    partial: u64,
    refused: u64,
    failed: u64,
    /// Values that collectors said they rejected.
    pub rejected_points: u64,
    /// Whether the last push was taken as a whole.
    pub up: bool,
}

impl PushCounts {
    /// Counts one.
    pub fn add(&mut self, result: &PushResult) {
        self.up = *result == PushResult::Taken;
        let count = match result {
            PushResult::Taken => &mut self.taken,
            PushResult::Partial { rejected, .. } => {
                // By the collector's own word, which may be any number.
                self.rejected_points = self.rejected_points.saturating_add(*rejected);
                &mut self.partial
            }
            PushResult::Refused { .. } => &mut self.refused,
            PushResult::Failed { .. } => &mut self.failed,
        };
        *count += 1;
    }

    /// `taken`, `partial`, `refused` and `failed`.
    pub fn by_result(&self) -> [(&'static str, u64); 4] {
        [
            ("taken", self.taken),
            ("partial", self.partial),
            ("refused", self.refused),
            ("failed", self.failed),
        ]
    }
}

/// Whether pushes are taken, so that it is said once when that ends and once when it begins again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushHealth {
    since: u64,
}

/// What is to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushChange {
    /// Pushes are no longer taken as a whole: why.
    Began(String),
    /// They are again, after so many that were not.
    Ended(u64),
}

impl PushHealth {
    /// What is to be said after a push; mostly nothing.
    pub fn after(&mut self, result: &PushResult) -> Option<PushChange> {
        match result.problem() {
            Some(problem) => {
                self.since += 1;
                (self.since == 1).then_some(PushChange::Began(problem))
            }
            None => match std::mem::take(&mut self.since) {
                0 => None,
                count => Some(PushChange::Ended(count)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_repeats_of_the_headers_is_not_said_again() {
        let headers = [("Authorization".to_owned(), "Bearer SECRET-0123".to_owned())];
        let said = "you sent authorization: Bearer SECRET-0123, SECRET-0123".to_owned();
        let problem = without(said, &headers);
        assert!(!problem.contains("SECRET"), "{problem}");
        assert!(problem.contains("you sent authorization"), "{problem}");
    }

    #[test]
    fn values_of_headers_that_are_parts_of_json_change_nothing_of_what_is_read() {
        // Each of these stands somewhere in the answer: blanked before it was read, nothing would have been rejected.
        for value in ["rejectedDataPoints", "\"", "{", "7", "partialSuccess"] {
            let headers = [("X-Tenant".to_owned(), value.to_owned())];
            let said = r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too old"}}"#;
            let expected = PushResult::Partial {
                rejected: 7,
                message: "too old".to_owned(),
            };
            assert_eq!(taken(said.as_bytes(), &headers), expected, "{value}");
        }
    }

    #[test]
    fn what_a_collector_repeats_inside_its_json_is_not_said_again() {
        let secret = r#"to"ken\0123"#;
        let headers = [("Authorization".to_owned(), secret.to_owned())];
        let partial = serde_json::json!({"partialSuccess": {"rejectedDataPoints": 1, "errorMessage": secret}});
        let shown = taken(partial.to_string().as_bytes(), &headers).problem();
        assert_eq!(
            shown.unwrap(),
            "the collector rejected 1 values: (not shown)"
        );
        // An array is no answer of a collector, and is shown as it came.
        let other = serde_json::json!([secret]).to_string();
        let shown = taken(other.as_bytes(), &headers).problem().unwrap();
        assert!(shown.ends_with(r#": ["(not shown)"]"#), "{shown}");
    }

    #[test]
    fn trouble_is_said_once_when_it_begins_and_once_when_it_ends() {
        let failed = |why: &str| PushResult::Failed {
            problem: why.to_owned(),
        };
        let mut trouble = PushHealth::default();
        let mut counts = PushCounts::default();
        let mut after = |result: &PushResult| {
            counts.add(result);
            trouble.after(result)
        };
        assert_eq!(after(&PushResult::Taken), None);
        assert_eq!(after(&failed("a")), Some(PushChange::Began("a".to_owned())));
        assert_eq!(after(&failed("b")), None);
        let partial = PushResult::Partial {
            rejected: u64::MAX,
            message: String::new(),
        };
        assert_eq!(after(&partial), None);
        assert_eq!(after(&partial), None);
        assert_eq!(after(&PushResult::Taken), Some(PushChange::Ended(4)));
        assert_eq!(after(&PushResult::Taken), None);
        assert_eq!(counts.by_result().map(|(_, count)| count), [3, 2, 0, 2]);
        assert_eq!((counts.rejected_points, counts.up), (u64::MAX, true));
    }

    #[test]
    fn what_a_collector_rejects_is_read_in_both_forms_and_nonsense_is_no_rejection() {
        let rejected = |said: &str| match taken(said.as_bytes(), &[]) {
            PushResult::Partial { rejected, message } => (rejected, message),
            _ => (0, String::new()),
        };
        let said = r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too old"}}"#;
        assert_eq!(rejected(said), (7, "too old".to_owned()));
        assert_eq!(
            rejected(r#"{"partialSuccess":{"rejectedDataPoints":8}}"#).0,
            8
        );
        for nothing in [
            "",
            "{}",
            r#"{"partialSuccess":{}}"#,
            r#"{"partialSuccess":{"rejectedDataPoints":"-1"}}"#,
            r#"{"partialSuccess":null}"#,
        ] {
            assert_eq!(
                taken(nothing.as_bytes(), &[]),
                PushResult::Taken,
                "{nothing}"
            );
        }
        for other in [
            "\u{fffd}",
            "<html>log in</html>",
            "[]",
            "7",
            r#"{"partialSuc"#,
        ] {
            let result = taken(other.as_bytes(), &[]);
            assert!(matches!(result, PushResult::Failed { .. }), "{other}");
        }
        assert_eq!(retry_after(" 30 "), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("999999999"), Some(LONGEST_WAIT));
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), None);
    }
}
