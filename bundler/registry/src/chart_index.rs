//! `index.yaml` of a chart repository, read as it comes in.
//!
//! What comes in: bytes from a server, bounded. What goes out: for each chart its versions, each with the digest and the
//! addresses of its archive. Nothing but that is held: of an index with 64 MiB most is descriptions. What is not
//! the form of an index is an error with its line.

use outhaul_kit::bounds::MAX_YAML_DEPTH;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;

use outhaul_bundle::Digest;
use saphyr_parser::{BufferedInput, Event, Parser, Span};

/// Most versions of all charts together.
const MAX_VERSIONS: usize = 200_000;
/// Most addresses of one archive.
const MAX_ADDRESSES: usize = 16;
/// Longest text that is kept, in bytes.
const MAX_TEXT: usize = 2048;

/// What a repository has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// The versions of each chart, in the order in which they are listed.
    pub charts: BTreeMap<String, Vec<Version>>,
}

/// One version of a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    /// The version.
    pub version: String,
    /// The digest of its archive, where the index has one.
    pub digest: Option<Digest>,
    /// Where its archive is: relative to the repository, or whole.
    pub urls: Vec<String>,
    /// The form of the chart.
    pub api_version: Option<String>,
    /// The version of what the chart installs.
    pub app_version: Option<String>,
}

/// Why an index cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexError {
    /// It broke off.
    Read(String),
    /// It is not an index.
    Wrong(String),
}

/// Reads an index of at most `max` bytes.
///
/// # Errors
/// [`IndexError`]
pub fn read<'r>(from: impl Read + 'r, max: u64) -> Result<Index, IndexError> {
    let failed = Rc::default();
    let characters = Characters {
        from,
        max,
        count: 0,
        bytes: Vec::new(),
        text: String::new().into_bytes().into_iter(),
        failed: Rc::clone(&failed),
    };
    let mut reader = Reader {
        parser: Parser::new_from_iter(characters),
        versions: 0,
    };
    let read = reader.index();
    // Where the bytes are at fault, the parser only saw an early end.
    match failed.take() {
        Some(error) => Err(error),
        None => read.map_err(IndexError::Wrong),
    }
}

/// Bytes as characters, counted; it ends at the first fault, which it notes.
struct Characters<R> {
    from: R,
    max: u64,
    count: u64,
    /// What is the beginning of a character.
    bytes: Vec<u8>,
    text: std::vec::IntoIter<u8>,
    failed: Rc<RefCell<Option<IndexError>>>,
}

impl<R: Read> Characters<R> {
    fn fail(&self, error: IndexError) {
        self.failed.borrow_mut().get_or_insert(error);
    }

    /// The next piece of whole characters; `None` at the end and at a fault.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = match self.from.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.fail(IndexError::Read(error.to_string()));
                    return None;
                }
                Ok(count) => count,
            };
            self.count += count as u64;
            if self.count > self.max {
                let problem = format!("has more than {} bytes", self.max);
                self.fail(IndexError::Wrong(problem));
                return None;
            }
            self.bytes.extend_from_slice(&buffer[..count]);
            let good = match std::str::from_utf8(&self.bytes) {
                Ok(text) => text.len(),
                Err(error) if error.error_len().is_none() && count > 0 => error.valid_up_to(),
                Err(_) => {
                    self.fail(IndexError::Wrong("is not text in UTF-8".to_owned()));
                    return None;
                }
            };
            if good > 0 {
                let rest = self.bytes.split_off(good);
                return Some(std::mem::replace(&mut self.bytes, rest));
            }
            if count == 0 {
                return None;
            }
        }
    }
}

impl<R: Read> Iterator for Characters<R> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        if self.text.len() == 0 {
            self.text = self.piece()?.into_iter();
        }
        let first = self.text.next()?;
        let more = match first {
            0..=0x7f => return Some(char::from(first)),
            0x80..=0xdf => 1,
            0xe0..=0xef => 2,
            _ => 3,
        };
        let mut bytes = vec![first];
        bytes.extend(self.text.by_ref().take(more));
        std::str::from_utf8(&bytes).ok()?.chars().next()
    }
}

struct Reader<'r, R: Read + 'r> {
    parser: Parser<'r, BufferedInput<Characters<R>>>,
    versions: usize,
}

type Parsed<T> = Result<T, String>;

impl<'r, R: Read + 'r> Reader<'r, R> {
    fn next(&mut self) -> Parsed<(Event<'r>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let line = error.marker().line();
                Err(format!("is not YAML, in line {line}: {}", error.info()))
            }
            None => Err("ends in the middle of a value".to_owned()),
        }
    }

    fn index(&mut self) -> Parsed<Index> {
        let mut index = Index::default();
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (Event::MappingStart(..), _) => break,
                (_, span) => return Err(unexpected(&span, "a map with `entries`")),
            }
        }
        let mut has_entries = false;
        while let Some(key) = self.key()? {
            if key == "entries" {
                has_entries = true;
                self.entries(&mut index)?;
            } else {
                self.skip()?;
            }
        }
        match has_entries {
            true => Ok(index),
            false => Err("has no `entries`: it is not the index of a chart repository".to_owned()),
        }
    }

    /// The next key of a map; `None` at its end.
    fn key(&mut self) -> Parsed<Option<String>> {
        match self.next()? {
            (Event::MappingEnd, _) => Ok(None),
            (Event::Scalar(text, ..), span) => bounded(text, &span).map(Some),
            (_, span) => Err(unexpected(&span, "the name of a field")),
        }
    }

    fn entries(&mut self, index: &mut Index) -> Parsed<()> {
        match self.next()? {
            (Event::MappingStart(..), _) => {}
            // `entries: {}` written as nothing.
            (Event::Scalar(text, ..), _) if text.is_empty() || text == "null" => return Ok(()),
            (_, span) => return Err(unexpected(&span, "a map of charts")),
        }
        while let Some(name) = self.key()? {
            match self.next()? {
                (Event::SequenceStart(..), _) => {}
                (Event::Scalar(text, ..), _) if text.is_empty() || text == "null" => continue,
                (_, span) => return Err(unexpected(&span, "a list of versions")),
            }
            let mut versions = Vec::new();
            loop {
                match self.next()? {
                    (Event::SequenceEnd, _) => break,
                    (Event::MappingStart(..), span) => versions.extend(self.version(&span)?),
                    (_, span) => return Err(unexpected(&span, "one version of a chart")),
                }
            }
            index.charts.entry(name).or_default().extend(versions);
        }
        Ok(())
    }

    /// One version; `None` for one that has none.
    fn version(&mut self, at: &Span) -> Parsed<Option<Version>> {
        self.versions += 1;
        if self.versions > MAX_VERSIONS {
            return Err(format!("lists more than {MAX_VERSIONS} versions"));
        }
        let mut version = Version::default();
        while let Some(key) = self.key()? {
            match key.as_str() {
                "version" => version.version = self.text()?.unwrap_or_default(),
                "apiVersion" => version.api_version = self.text()?,
                "appVersion" => version.app_version = self.text()?,
                "digest" => {
                    let Some(text) = self.text()?.filter(|text| !text.is_empty()) else {
                        continue;
                    };
                    let hex = text.strip_prefix("sha256:").unwrap_or(&text);
                    let digest = format!("sha256:{hex}").parse();
                    let digest = digest.map_err(|_| {
                        let line = at.start.line();
                        format!("lists a digest that is not SHA-256, after line {line}")
                    })?;
                    version.digest = Some(digest);
                }
                "urls" => version.urls = self.texts()?,
                _ => self.skip()?,
            }
        }
        Ok((!version.version.is_empty()).then_some(version))
    }

    /// A text; `None` for what is not one.
    fn text(&mut self) -> Parsed<Option<String>> {
        match self.next()? {
            (Event::Scalar(text, ..), span) => bounded(text, &span).map(Some),
            (event, _) => {
                self.skip_rest(&event)?;
                Ok(None)
            }
        }
    }

    fn texts(&mut self) -> Parsed<Vec<String>> {
        match self.next()? {
            (Event::SequenceStart(..), _) => {}
            (event, _) => {
                self.skip_rest(&event)?;
                return Ok(Vec::new());
            }
        }
        let mut all = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(all),
                (Event::Scalar(text, ..), span) => {
                    if all.len() < MAX_ADDRESSES {
                        all.push(bounded(text, &span)?);
                    }
                }
                (event, _) => self.skip_rest(&event)?,
            }
        }
    }

    /// Passes over a value.
    fn skip(&mut self) -> Parsed<()> {
        let (event, _) = self.next()?;
        self.skip_rest(&event)
    }

    /// Passes over what follows the beginning of a value.
    fn skip_rest(&mut self, first: &Event<'_>) -> Parsed<()> {
        let mut depth = usize::from(is_start(first));
        while depth > 0 {
            let (event, span) = self.next()?;
            if is_start(&event) {
                depth += 1;
            }
            if matches!(event, Event::MappingEnd | Event::SequenceEnd) {
                depth -= 1;
            }
            if depth > MAX_YAML_DEPTH {
                return Err(unexpected(&span, "less nesting"));
            }
        }
        Ok(())
    }
}

fn is_start(event: &Event<'_>) -> bool {
    matches!(event, Event::MappingStart(..) | Event::SequenceStart(..))
}

fn unexpected(at: &Span, what: &str) -> String {
    let line = at.start.line();
    format!("is not the index of a chart repository: in line {line}, {what} is expected")
}

fn bounded(text: Cow<'_, str>, at: &Span) -> Parsed<String> {
    match text.len() <= MAX_TEXT && !text.contains(char::is_control) {
        true => Ok(text.into_owned()),
        false => Err(unexpected(at, "a short text in one line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;

    /// One byte at a time: characters come in pieces.
    struct OneByOne<'a>(&'a [u8]);
    impl Read for OneByOne<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.len().min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn an_index_as_helm_writes_it_is_read_with_its_digests_and_addresses() {
        let digest = "ab".repeat(32);
        let text = format!(
            "apiVersion: v1\nentries:\n  app:\n  - apiVersion: v2\n    appVersion: 1.16.0\n    \
             created: \"2026-01-02T03:04:05Z\"\n    description: |\n      größer\n      als\n    dependencies:\n    \
             - name: sub\n      version: 9.9.9\n    digest: {digest}\n    name: app\n    urls:\n    \
             - charts/app-1.2.3.tgz\n    version: 1.2.3\n  - version: 1.2.2\n    urls: [a.tgz]\n  none: []\n\
             generated: \"2026-01-02T03:04:05Z\"\n"
        );
        let index = read(text.as_bytes(), MAX).unwrap();
        assert_eq!(read(OneByOne(text.as_bytes()), MAX), Ok(index.clone()));
        let app = &index.charts["app"];
        assert_eq!(app.len(), 2);
        assert_eq!(app[0].version, "1.2.3");
        assert_eq!(app[0].urls, ["charts/app-1.2.3.tgz"]);
        assert_eq!(app[0].digest.unwrap().hex(), digest);
        assert_eq!(app[0].app_version.as_deref(), Some("1.16.0"));
        assert_eq!(app[1].digest, None);
        // JSON is YAML: some servers write it.
        let json = r#"{"entries": {"app": [{"version": "1.0.0", "urls": ["x"]}]}}"#;
        assert_eq!(read(json.as_bytes(), MAX).unwrap().charts["app"].len(), 1);
    }

    #[test]
    fn what_is_no_index_is_refused_with_its_line_and_never_held_whole() {
        let problem = |text: &[u8]| match read(text, 200).unwrap_err() {
            IndexError::Wrong(problem) | IndexError::Read(problem) => problem,
        };
        for (text, expected) in [
            ("<html>\n<body>", "is not"),
            ("", "is not"),
            ("a: 1\n", "has no `entries`"),
            ("entries:\n  app: 3\n", "in line 2, a list of versions"),
            ("entries: {app: [{version: [}]}", "is not YAML, in line 1"),
            ("entries: {app: [{version: 1.0.0, digest: xyz}]}", "SHA-256"),
            ("entries:\n  app: *nothing\n", "is not"),
        ] {
            let found = problem(text.as_bytes());
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert_eq!(problem(b"entries: \xff\xfe"), "is not text in UTF-8");
        // A body without an end is left where the limit is.
        let endless = std::io::Read::chain(&b"entries: {}\n#"[..], std::io::repeat(b'x'));
        let found = read(endless, 100_000);
        assert_eq!(
            found,
            Err(IndexError::Wrong("has more than 100000 bytes".to_owned()))
        );
    }
}
