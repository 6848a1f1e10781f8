//! A plain TUF client on Outhaul's verifier, for the conformance suite of The Update Framework.
//!
//! It speaks the command line of `theupdateframework/tuf-conformance`:
//!
//! ```text
//! tuf_client --metadata-dir DIR init TRUSTED_ROOT
//! tuf_client --metadata-dir DIR --metadata-url URL refresh
//! tuf_client --metadata-dir DIR --metadata-url URL --target-name PATH … \
//!            --target-base-url URL --target-dir DIR download
//! ```
//!
//! Exit code 0 or 1. With `TUF_CLIENT_TALLY=FILE` every step is done a second time from a bundle's tar that
//! holds the files which the server gave, through the reader that a site uses; another verdict, or other
//! trusted metadata, is a failure, and the file gets a line (`same`, or why a tar could not hold the
//! files: bundles are stricter about names than servers). What a site does differently (dates as a verdict, floors, one stream) is switched off:
//! this shows that the walk below it is the specification's. It fetches over plain HTTP with a few
//! its own lines, because the suite's server is local and nothing here trusts the transport.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::{BundleReader, Limits};
use outhaul_signer::durable::{self, PUBLIC_MODE};
use outhaul_signer::trust::walk::Walk;
use outhaul_signer::trust::{MetadataSource, SourceError, TrustedMetadata};
use sha2::{Digest as _, Sha256, Sha512};
use sigstore_tuf::TargetFile;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Most bytes of one metadata file in the store.
const MAX_STORED_BYTES: u64 = 5_000_000;
/// Most bytes of an answer's head.
const MAX_HEAD_BYTES: u64 = 64 * 1024;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tuf_client: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Arguments {
    options: BTreeMap<String, String>,
    targets: Vec<String>,
    words: Vec<String>,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let mut arguments = Self::default();
        let mut given = std::env::args().skip(1);
        while let Some(word) = given.next() {
            let Some(option) = word.strip_prefix("--") else {
                arguments.words.push(word);
                continue;
            };
            let value = given
                .next()
                .ok_or_else(|| format!("`{word}` needs a value"))?;
            if option == "target-name" {
                arguments.targets.push(value);
            } else {
                arguments.options.insert(option.to_owned(), value);
            }
        }
        Ok(arguments)
    }

    fn option(&self, name: &str) -> Result<&str> {
        let missing = || format!("`--{name}` is missing");
        Ok(self.options.get(name).ok_or_else(missing)?)
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse()?;
    let store = Path::new(arguments.option("metadata-dir")?);
    match arguments
        .words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()[..]
    {
        ["init", root] => {
            let bytes = durable::read(Path::new(root), MAX_STORED_BYTES)?;
            keep(store, &TrustedMetadata::enrol(&bytes)?)
        }
        ["refresh"] => refresh(&arguments, store).map(|_| ()),
        ["download"] => download(&arguments, store),
        _ => Err("say init TRUSTED_ROOT, refresh or download".into()),
    }
}

fn refresh(arguments: &Arguments, store: &Path) -> Result<(Walk, Recording)> {
    let source = Recording::of(Http::new(arguments.option("metadata-url")?)?);
    let before = stored(store)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the edge of the program: all below is given the time"
    )]
    let now = Timestamp::now();
    let (walk, outcome) = refreshed(&before, now, &source)?;
    // What was accepted before a refusal counts: that is what floors are for.
    keep(store, &walk.trusted())?;
    if let Some(tally) = std::env::var_os("TUF_CLIENT_TALLY") {
        let line = match source.as_tar() {
            Err(reason) => reason,
            Ok(tar) => {
                let (again, in_tar) = refreshed(&before, now, &tar)?;
                if in_tar.is_ok() != outcome.is_ok() || again.trusted() != walk.trusted() {
                    return Err(opposite(&outcome, &in_tar));
                }
                "same".to_owned()
            }
        };
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(tally)?;
        writeln!(file, "{line}")?;
    }
    outcome?;
    Ok((walk, source))
}

type Outcome = std::result::Result<(), outhaul_signer::TrustError>;

fn refreshed(
    before: &TrustedMetadata,
    now: Timestamp,
    source: &dyn MetadataSource,
) -> Result<(Walk, Outcome)> {
    let mut walk = Walk::resume(before)?.judge_dates(now);
    let outcome = walk
        .update_root(source, &mut |_| {})
        .and_then(|()| walk.refresh(source));
    Ok((walk, outcome))
}

/// Ends the program as the suite does not expect it: two transports must not have two verdicts.
fn opposite(http: &Outcome, tar: &Outcome) -> Box<dyn Error> {
    let text = format!("over HTTP: {http:?}; from the tar: {tar:?}");
    if http.is_ok() {
        return text.into();
    }
    eprintln!("tuf_client: {text}");
    std::process::exit(0)
}

/// A server with answers that are remembered.
struct Recording {
    http: Http,
    files: RefCell<BTreeMap<String, Vec<u8>>>,
}

impl Recording {
    fn of(http: Http) -> Self {
        let files = RefCell::default();
        Self { http, files }
    }

    /// The same files as a bundle holds them: written as a tar and read as a site reads it.
    fn as_tar(&self) -> std::result::Result<BTreeMap<String, Vec<u8>>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("not carried: {error}");
        let mut bundle = FakeBundle::new(1, &[]).map_err(|error| failed(&error))?;
        bundle.metadata = self.files.borrow().clone().into_iter().collect();
        let bytes = bundle.to_bytes().map_err(|error| failed(&error))?;
        BundleReader::new(bytes.as_slice(), Limits::default())
            .read_metadata()
            .map_err(|error| failed(&error))
    }
}

impl MetadataSource for Recording {
    fn fetch(
        &self,
        name: &str,
        max_bytes: u64,
    ) -> std::result::Result<Option<Vec<u8>>, SourceError> {
        let answer = self.http.fetch(name, max_bytes);
        let bytes = match &answer {
            Ok(bytes) => bytes.clone(),
            // A tar would hold it whole.
            Err(_) => self.http.fetch(name, MAX_STORED_BYTES).ok().flatten(),
        };
        if let Some(bytes) = bytes {
            self.files.borrow_mut().insert(name.to_owned(), bytes);
        }
        answer
    }
}

fn download(arguments: &Arguments, store: &Path) -> Result<()> {
    let folder = Path::new(arguments.option("target-dir")?);
    let targets = Http::new(arguments.option("target-base-url")?)?;
    let (mut walk, source) = refresh(arguments, store)?;
    for path in &arguments.targets {
        let found = walk.target(&source, path);
        keep(store, &walk.trusted())?;
        let target = found?.ok_or_else(|| format!("no role lists `{path}`"))?;
        let file = folder.join(encoded(path, ""));
        if fs::read(&file).is_ok_and(|bytes| matches(&target, &bytes)) {
            continue;
        }
        let url = if walk.set().root().consistent_snapshot {
            let hash = target
                .hashes
                .values()
                .next()
                .ok_or("a target without a hash")?;
            match path.rsplit_once('/') {
                Some((folder, name)) => format!("{folder}/{hash}.{name}"),
                None => format!("{hash}.{path}"),
            }
        } else {
            path.clone()
        };
        let bytes = targets.get(&encoded(&url, "/"), target.length)?;
        let bytes = bytes.ok_or_else(|| format!("`{url}` is missing"))?;
        if !matches(&target, &bytes) {
            return Err(format!("`{path}` is not what the metadata lists").into());
        }
        durable::write(&file, &bytes, PUBLIC_MODE)?;
    }
    Ok(())
}

/// Size and every known digest are right, and there is one that is known.
fn matches(target: &TargetFile, bytes: &[u8]) -> bool {
    let known: Vec<bool> = target
        .hashes
        .iter()
        .filter_map(|(algorithm, expected)| {
            let found = match algorithm.as_str() {
                "sha256" => hex::encode(Sha256::digest(bytes)),
                "sha512" => hex::encode(Sha512::digest(bytes)),
                _ => return None,
            };
            Some(found.eq_ignore_ascii_case(expected))
        })
        .collect();
    bytes.len() as u64 == target.length && !known.is_empty() && known.iter().all(|right| *right)
}

fn stored(store: &Path) -> Result<TrustedMetadata> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        if path.is_file()
            && path
                .extension()
                .is_some_and(|extension| extension == "json")
        {
            files.insert(name, durable::read(&path, MAX_STORED_BYTES)?);
        }
    }
    Ok(TrustedMetadata(files))
}

fn keep(store: &Path, trusted: &TrustedMetadata) -> Result<()> {
    for (name, bytes) in &trusted.0 {
        let path: PathBuf = store.join(name);
        if fs::read(&path).ok().as_ref() != Some(bytes) {
            durable::write(&path, bytes, PUBLIC_MODE)?;
        }
    }
    Ok(())
}

/// A folder on a web server.
struct Http {
    host: String,
    folder: String,
}

impl Http {
    fn new(url: &str) -> Result<Self> {
        let rest = url
            .strip_prefix("http://")
            .ok_or("only http:// is spoken here")?;
        let (host, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let host = if host.contains(':') {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        Ok(Self {
            host,
            folder: format!("/{}", folder.trim_end_matches('/')),
        })
    }

    /// The body of `name`, at most `max_bytes`; `None` when the server has no such file.
    fn get(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let folder = self.folder.trim_end_matches('/');
        let mut stream = TcpStream::connect(&self.host)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let host = &self.host;
        write!(
            stream,
            "GET {folder}/{name} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = Vec::new();
        stream
            .take(max_bytes + MAX_HEAD_BYTES)
            .read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.ok_or("an answer without a head")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap_or_default();
        match status {
            "200" => {}
            "403" | "404" => return Ok(None),
            other => return Err(format!("`{name}`: the server answers {other}").into()),
        }
        let body = answer.split_off(end + 4);
        let length = head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<u64>().ok())?
        });
        if body.len() as u64 > max_bytes || length.is_some_and(|length| length > max_bytes) {
            return Err(SourceError::TooLarge {
                name: name.to_owned(),
                max_bytes,
            }
            .into());
        }
        if length.is_some_and(|length| length != body.len() as u64) {
            return Err(format!("`{name}` was cut off").into());
        }
        Ok(Some(body))
    }
}

impl MetadataSource for Http {
    fn fetch(
        &self,
        name: &str,
        max_bytes: u64,
    ) -> std::result::Result<Option<Vec<u8>>, SourceError> {
        self.get(name, max_bytes)
            .map_err(|error| match error.downcast::<SourceError>() {
                Ok(known) => *known,
                Err(other) => SourceError::Unreadable {
                    name: name.to_owned(),
                    reason: other.to_string(),
                },
            })
    }
}

/// Percent-encodes all but unreserved characters and those of `keep`.
fn encoded(text: &str, keep: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if plain || keep.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex::encode_upper([byte]));
        }
    }
    out
}
