//! What a file is that a person named and that is not what the command takes.
//!
//! What comes in: a file that was given as a bundle, or bytes that were given as root metadata. What goes out: the
//! refusal that names that file and, where its beginning shows it, what it is. It reads a few bytes and trusts none.

use std::fmt::Display;
use std::io::Read as _;
use std::path::Path;

use outhaul_attest::inspect;
use outhaul_bundle::limits::Limits;
use outhaul_bundle::read::BundleReader;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::{media, slip};

use super::failure::{self, Failure};

/// Bytes of a file that are looked at.
const LOOKED_AT: u64 = 4096;
/// Where the first member of a bundle says that it is one of an archive, and what.
const MARK: (usize, &[u8]) = (257, b"ustar");

/// Refuses `path` when its beginning shows that it is not a bundle. A bundle that was cut off or changed is not looked
/// for here.
pub(super) fn refuse_other_file(path: &Path) -> Result<(), Failure> {
    let file = media::open_file(path).map_err(|error| match path.starts_with("/dev") {
        // Of what a stick has in the place of a file the help is another one.
        true => Failure::new(failure::ENVIRONMENT, &error)
            .help("name a file: a bundle, on this machine or on a stick that is mounted"),
        false => Failure::file(&error),
    })?;
    let mut bytes = Vec::new();
    if file.take(LOOKED_AT).read_to_end(&mut bytes).is_err() {
        // Whoever reads it whole reports that.
        return Ok(());
    }
    let Some(what) = what_it_is(&bytes).filter(|what| *what != BUNDLE) else {
        return Ok(());
    };
    let message = format!("`{}` is not a bundle: it is {what}", path.display());
    if what == SLIP {
        return Err(Failure::say(failure::USAGE, message).help(
            "a site checks it when it takes it (`outhaul-agent import FILE`); what it names and until when it is valid \
             `outhaul slip` printed",
        ));
    }
    Err(Failure::say(failure::TRUST, message).help(
        "name the file that `outhaul bundle` wrote: `<environment>-<cluster type>-<number>.outhaul`",
    ))
}

/// The refusal of `bytes`, which `name` gave as root metadata and `error` distinguishes from it.
pub(super) fn not_a_root(name: &str, bytes: &[u8], error: &dyn Display) -> Failure {
    let what = match what_it_is(bytes) {
        Some(what) => format!("it is {what}"),
        None => error.to_string(),
    };
    let message = format!("{name} is not root metadata: {what}");
    Failure::say(failure::USAGE, message).help(
        "give the fleet's `metadata/1.root.json`, or its folder with `--fleet DIR`; the bundle was not read",
    )
}

/// What the root metadata is called that was given as a file, or as the folder of a fleet.
pub(super) fn root_name(root: Option<&Path>, fleet: Option<&Path>) -> String {
    match (root, fleet) {
        (Some(file), _) => format!("`{}`, given with `--root`,", file.display()),
        (None, folder) => {
            let folder = folder.unwrap_or(Path::new(""));
            format!("the root metadata of the fleet in `{}`", folder.display())
        }
    }
}

/// Whether `file` is a bundle that none of the keys of `root` signed.
pub(super) fn is_of_another_fleet(file: &Path, root: &[u8]) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "the edge of the program: all below is given the time"
    )]
    let now = jiff::Timestamp::now();
    let file = media::open_file(file);
    file.is_ok_and(|file| inspect::is_of_another_fleet(file, root, now))
}

/// Why `file`, a bundle of the stream `role` of `fleet`, is not what would be signed now: keys were changed since.
pub(super) fn outdated(fleet: &Fleet, file: &Path, role: &str) -> Option<String> {
    let file = media::open_file(file).ok()?;
    let files = BundleReader::new(file, Limits::default()).read_metadata();
    let why = fleet.outdated(role, &files.ok()?).ok()?;
    why.map(|why| why.to_string())
}

/// The refusal of `file`, a bundle of another fleet than the one that `root_name` is of.
pub(super) fn other_fleet(file: &Path, root_name: &str) -> Failure {
    let message = format!(
        "`{}` is of another fleet: {} has none of the keys that signed it",
        file.display(),
        root_name.trim_end_matches(',')
    );
    Failure::say(failure::TRUST, message).help(
        "check it against the root of the fleet that its sites belong to; a site of this fleet refuses it",
    )
}

const BUNDLE: &str = "a bundle";
const SLIP: &str = "a freshness slip";

/// What a file is that begins with `bytes`, where that shows.
fn what_it_is(bytes: &[u8]) -> Option<&'static str> {
    let (at, mark) = MARK;
    if bytes.get(at..at + mark.len()) == Some(mark) {
        return Some(BUNDLE);
    }
    if bytes.starts_with(&slip::MAGIC) {
        return Some(SLIP);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    if text.trim_start().starts_with(slip::PREFIX) {
        return Some(SLIP);
    }
    let keys = ["-----BEGIN ", "AGE-SECRET-KEY-", "age1"];
    let is_key = |line: &str| keys.iter().any(|mark| line.starts_with(mark));
    if text.lines().any(is_key) {
        return Some("a key");
    }
    if text.starts_with('{') {
        let json: serde_json::Value = serde_json::from_str(text).ok()?;
        return match json["signed"]["_type"].as_str() {
            Some("targets") => Some("the metadata of a stream"),
            Some("timestamp" | "snapshot") => Some("other metadata of a fleet"),
            Some(_) => None,
            None if json.get("blobs").is_some() => Some("the index of a bundle"),
            None if json.get("token").is_some() => Some("a kit of a site"),
            None => Some("other JSON"),
        };
    }
    // What is cut off before its mark has the name of its first member, and nothing else.
    let is_text = text.contains(char::is_whitespace) && !text.contains('\0');
    is_text.then_some("a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_is_shows_at_its_beginning() {
        let mut archive = vec![0; 512];
        archive[257..262].copy_from_slice(b"ustar");
        for (bytes, what) in [
            (&archive[..], Some("a bundle")),
            (b"# made today\nAGE-SECRET-KEY-1X\n", Some("a key")),
            (b"{\"signed\": {\"_type\": \"root\"}}", None),
            (b"{\"blobs\": []}", Some("the index of a bundle")),
            (b"a note\n", Some("a text")),
            (b"OHS\x01\xff", Some("a freshness slip")),
            (b"\nOUTHAUL:ABC", Some("a freshness slip")),
            (b"metadata/1.root", None),
            (b"\xff\xfe\x00", None),
            (b"", None),
        ] {
            assert_eq!(what_it_is(bytes), what, "{bytes:?}");
        }
    }
}
