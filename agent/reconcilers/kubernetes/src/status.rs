//! What the API server says when it refuses: its own words, and what kind of refusal it is.
//!
//! What comes in: an HTTP status and the answer's body. What goes out: a [`Refusal`] with the server's message
//! word for word. It is pure.

use std::fmt;

use serde_json::Value;

/// Longest message that is kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// What kind of refusal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Who asks is not known: no token, a wrong or an expired one.
    Unauthorized,
    /// Who asks may not do this.
    Forbidden,
    /// A quota is used up.
    Quota,
    /// Someone else's field, or another state than was expected.
    Conflict,
    /// A webhook or an admission policy said no.
    Denied,
    /// The namespace is being removed.
    Terminating,
    /// It is not there, or its namespace or kind is not.
    NotFound,
    /// The object is not valid.
    Invalid,
    /// The server cannot answer now.
    Busy,
    /// Anything else.
    Other,
}

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// Its kind.
    pub reason: Reason,
    /// The server's message, word for word.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Refusal {
    /// From an answer that is not a success.
    pub fn of(code: u16, body: &[u8]) -> Self {
        let status: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = match status["message"].as_str() {
            Some(message) if !message.is_empty() => message.to_owned(),
            _ => format!("{code} {}", String::from_utf8_lossy(body).trim()),
        };
        let said = status["reason"].as_str().unwrap_or_default();
        let causes = status["details"]["causes"].as_array().map(Vec::as_slice);
        let terminating = causes
            .unwrap_or_default()
            .iter()
            .any(|cause| cause["reason"] == "NamespaceTerminating");
        let denied = message.contains("denied the request")
            || message.contains("denied request")
            || message.contains("violates PodSecurity");
        // Fields that the kind does not have, or of another type, are answered with 500 and no reason.
        let malformed =
            said.is_empty() && message.starts_with("failed to create typed patch object");
        let reason = match (code, said) {
            _ if terminating => Reason::Terminating,
            (401, _) => Reason::Unauthorized,
            // A webhook answers with any code.
            (400..=499, _) if denied => Reason::Denied,
            (403, _) if message.contains("exceeded quota") || message.contains("failed quota") => {
                Reason::Quota
            }
            // Its controller has not counted yet.
            (403, _) if message.contains("status unknown for quota") => Reason::Busy,
            (403, _) => Reason::Forbidden,
            (404, _) => Reason::NotFound,
            (409, _) => Reason::Conflict,
            (400 | 422, _) => Reason::Invalid,
            (500, _) if malformed => Reason::Invalid,
            (429 | 500..=599, _) => Reason::Busy,
            _ => Reason::Other,
        };
        Self {
            code,
            reason,
            message: shortened(message),
        }
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_1_36_answered_is_understood_and_kept_word_for_word() {
        let recorded = include_str!("status/recorded.txt");
        assert_eq!(recorded.lines().count(), 11);
        for line in recorded.lines() {
            let (reason, body) = line.split_once(' ').unwrap();
            let status: Value = serde_json::from_str(body).unwrap();
            let code = u16::try_from(status["code"].as_u64().unwrap()).unwrap();
            let refusal = Refusal::of(code, body.as_bytes());
            assert_eq!(format!("{:?}", refusal.reason), reason, "{body}");
            assert_eq!(refusal.message, status["message"], "{body}");
        }
    }

    #[test]
    fn an_answer_that_is_not_the_servers_own_is_shown_shortened() {
        let refusal = Refusal::of(502, b"<html>Bad Gateway</html>");
        assert_eq!(refusal.reason, Reason::Busy);
        assert_eq!(refusal.to_string(), "502 <html>Bad Gateway</html>");
        assert!(
            Refusal::of(400, "\u{e4}".repeat(9000).as_bytes())
                .message
                .len()
                < 5000
        );
    }
}
