//! An error as text for whoever follows the chain: in one line, or whole with what to do next.
//!
//! What comes in: an error. What goes out: text. It prints nothing.

use super::PromoteError;
use outhaul_kit::failure::Classified as _;

/// An error with its causes in one line, and below it its findings and what to do next.
pub(super) fn with_help(error: &PromoteError) -> String {
    let mut text = match error {
        PromoteError::Candidate { findings, .. } | PromoteError::Broken { findings, .. } => {
            format!(
                "{}\n{}",
                error_chain(error),
                findings.render(false).trim_end()
            )
        }
        PromoteError::Findings(findings) => {
            return findings.render(false).trim_end().to_owned();
        }
        _ => error_chain(error),
    };
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = next {
        for line in cause.to_string().lines().skip(1) {
            if !text.lines().any(|known| known == line) {
                text.push_str(&format!("\n{line}"));
            }
        }
        next = cause.source();
    }
    match error.help().filter(|_| !text.contains("\nhelp: ")) {
        Some(help) => format!("{text}\nhelp: {help}"),
        None => text,
    }
}

/// An error with its causes, in one line: of each its first line. Unlike `outhaul_kit::text::chain`, which has each cause whole and leaves
/// out what the text ends with: git's answers have several lines, and errors here repeat a cause in the middle.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        let line = text.lines().next().unwrap_or_default().to_owned();
        if !parts.iter().any(|said| said.contains(&line)) {
            parts.push(line);
        }
        next = cause.source();
    }
    parts.join(": ")
}
