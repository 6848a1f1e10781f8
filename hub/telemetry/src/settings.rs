//! Where metrics are pushed to, and with which headers.
//!
//! What comes in: an address, and a file with one header a line. What goes out: [`OtlpSettings`], or what is wrong. The file is checked
//! when the hub starts and read again for each push, so that a new token needs no restart; what it holds is in no message.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_http::BaseUrl;
use outhaul_kit::durable;

/// Most bytes of the file with headers.
const MAX_FILE_BYTES: u64 = 16 * 1024;
/// Most headers.
const MAX_HEADERS: usize = 16;
/// What a push sets itself.
const OURS: [&str; 6] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
];
/// Where a collector takes metrics, below its address.
const PATH: &str = "v1/metrics";

/// Where to push to, and how often.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    url: String,
    is_tls: bool,
    /// The authority of the collector's certificate, PEM; without it, the system's.
    pub ca: Option<PathBuf>,
    /// A file with headers.
    pub headers: Option<PathBuf>,
    /// From one push to the next.
    pub every: Duration,
}

/// What is wrong with what was given.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The address.
    #[error("`--otlp`: give {expected}")]
    Url {
        /// What is expected instead. The address is not here: it may hold a password.
        expected: &'static str,
    },
    /// The file with headers cannot be read.
    #[error(transparent)]
    File(#[from] durable::FileError),
    /// The file with headers is not one.
    #[error("`{path}`: {problem}", path = path.display())]
    Headers {
        /// The file.
        path: PathBuf,
        /// What, and in which line.
        problem: String,
    },
}

impl OtlpSettings {
    /// Settings for a collector at `url`: its address as OpenTelemetry's own settings have it, or that of its `/v1/metrics`.
    ///
    /// # Errors
    /// [`SettingsError`] with what is wrong.
    pub fn new(
        url: &str,
        headers: Option<PathBuf>,
        ca: Option<PathBuf>,
        every: Duration,
    ) -> Result<Self, SettingsError> {
        let base: BaseUrl = url
            .parse()
            .map_err(|expected| SettingsError::Url { expected })?;
        let text = base.to_string();
        if let Some(path) = &headers {
            self::headers(path)?;
        }
        Ok(Self {
            is_tls: base.is_tls(),
            url: match text.ends_with(&format!("/{PATH}")) {
                true => text,
                false => base.join(PATH),
            },
            ca,
            headers,
            every,
        })
    }

    /// The address that gets each push.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is asked over TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }
}

/// Reads a file with headers: `Name: value`, one a line; empty lines and lines that begin with `#` are not looked at.
///
/// # Errors
/// [`SettingsError`] with the line, without what it holds.
pub fn headers(path: &Path) -> Result<Vec<(String, String)>, SettingsError> {
    let bytes = durable::read_secret(path, MAX_FILE_BYTES)?;
    parse(&bytes).map_err(|problem| SettingsError::Headers {
        path: path.to_owned(),
        problem,
    })
}

fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |problem: &str| format!("line {number}: {problem}");
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| at("a header is `Name: value`"))?;
        let (name, value) = (name.trim_end(), value.trim());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(at("this is not the name of a header"));
        }
        if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(at("this header is set by the push itself"));
        }
        if !value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) || value.is_empty() {
            return Err(at("a value is one or more visible ASCII characters"));
        }
        found.push((name.to_owned(), value.to_owned()));
    }
    if found.len() > MAX_HEADERS {
        return Err(format!("more than {MAX_HEADERS} headers"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_collector_or_of_its_metrics() {
        let url = |text: &str| {
            let made = OtlpSettings::new(text, None, None, Duration::from_secs(60));
            made.map(|made| made.url().to_owned())
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            url("https://c.example/").unwrap(),
            "https://c.example/v1/metrics"
        );
        let prometheus = "http://127.0.0.1:9090/api/v1/otlp/v1/metrics";
        assert_eq!(url(prometheus).unwrap(), prometheus);
        assert_eq!(
            url("http://127.0.0.1:9090/api/v1/otlp").unwrap(),
            prometheus
        );
        for wrong in [
            "http://c.example",
            "https://u:secret@c.example",
            "c.example:4318",
            "https://c.example/?k=secret",
        ] {
            let error = url(wrong).unwrap_err();
            assert!(
                error.contains("https://") && !error.contains("secret"),
                "{error}"
            );
        }
    }

    #[test]
    fn headers_are_named_by_their_line_and_never_quoted() {
        let text = "# for the collector\n\nAuthorization: Bearer a:b c\nX-Scope-OrgID:  fleet \n";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            [
                pair("Authorization", "Bearer a:b c"),
                pair("X-Scope-OrgID", "fleet")
            ]
        );
        for (text, words) in [
            ("a secret", "line 1: a header is"),
            ("\nA B: secret", "line 2: this is not the name"),
            ("content-TYPE: secret", "set by the push"),
            ("A: secret\u{7f}", "visible ASCII"),
            ("A:", "visible ASCII"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(
                error.contains(words) && !error.contains("secret"),
                "{error}"
            );
        }
        assert!(parse("A: b\n".repeat(17).as_bytes()).is_err());
        assert!(parse(b"\xff").is_err());
    }
}
