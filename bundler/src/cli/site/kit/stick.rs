//! What lies on a stick that makes machines sites: packages, the script, the page.
//!
//! What comes in: packages as files, the digests of what was written, and the stick. What goes out: their copies, read
//! back, and texts. It makes no kit and decides nothing about sites.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_kit::media::{Bounds, Media, open_file};
use outhaul_ship::deliver;

use crate::cli::failure::{self, Failure};

/// With this every Debian package begins: it is an `ar` archive.
const ARCHIVE: &[u8] = b"!<arch>\n";
/// The script as it is before names and digests are filled in.
const SCRIPT: &str = include_str!("start.sh");
/// The page as it is before the sites are filled in.
const PAGE: &str = include_str!("START-HERE.txt");
/// A stick of the centre: few sites, each with few files.
const LOOKED_AT: Bounds = Bounds {
    depth: 1,
    entries: 10_000,
    kept: 1_000,
};

/// A package that goes onto the stick.
#[derive(Debug)]
pub(super) struct Package {
    path: PathBuf,
    name: String,
}

/// One line of the script's list.
#[derive(Debug)]
pub(super) struct ChecksumLine {
    digest: String,
    bytes: u64,
    name: String,
}

impl ChecksumLine {
    /// Of a file with these bytes.
    pub(super) fn of(name: &str, bytes: &[u8]) -> Self {
        Self {
            digest: Digest::of(bytes).hex(),
            bytes: bytes.len() as u64,
            name: name.to_owned(),
        }
    }
}

/// The packages, each with a name as Debian's tools give it; the agent's is among them.
pub(super) fn packages(paths: &[PathBuf]) -> Result<Vec<Package>, Failure> {
    let mut found: Vec<Package> = Vec::new();
    let refused = |path: &Path, why: &str| {
        let message = format!("`{}` {why}", path.display());
        Failure::say(failure::USAGE, message).help(
            "give `.deb` files under the names that they were built with, such as outhaul-agent_0.1.0-1_amd64.deb",
        )
    };
    for path in paths {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !is_package_name(name) {
            return Err(refused(
                path,
                "has no name of a Debian package (NAME_VERSION_PROCESSOR.deb)",
            ));
        }
        let mut head = Vec::new();
        open_file(path)
            .map_err(|error| Failure::file(&error))?
            .take(ARCHIVE.len() as u64)
            .read_to_end(&mut head)
            .map_err(outhaul_kit::durable::at("read", path))
            .map_err(|error| Failure::file(&error))?;
        if head != ARCHIVE {
            return Err(refused(path, "is not a Debian package"));
        }
        if found.iter().any(|other| other.name == name) {
            return Err(refused(path, "is given twice"));
        }
        found.push(Package {
            path: path.clone(),
            name: name.to_owned(),
        });
    }
    if !found
        .iter()
        .any(|package| package.name.starts_with("outhaul-agent_"))
    {
        let message = "none of the packages is the agent's (outhaul-agent_….deb)";
        return Err(Failure::say(failure::USAGE, message)
            .help("`cargo xtask deb` makes it; give it with `--package`"));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Debian policy 5.6: names and versions have these characters, and none that a shell knows.
fn is_package_name(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.~%:".contains(c))
    };
    let parts: Vec<&str> = name
        .strip_suffix(".deb")
        .map_or(Vec::new(), |stem| stem.split('_').collect());
    parts.len() == 3 && parts.into_iter().all(plain)
}

impl Package {
    /// Its file name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Puts it into the site's folder on the stick, and reads it back.
    pub(super) fn copy(&self, folder: &Path) -> Result<ChecksumLine, Failure> {
        let (digest, bytes) = deliver::copy_file(&self.path, &folder.join(&self.name))
            .map_err(|error| Failure::of(&error))?;
        Ok(ChecksumLine {
            digest: digest.hex(),
            bytes,
            name: self.name.clone(),
        })
    }
}

/// The script for one site.
pub(super) fn script(site: &str, files: &[ChecksumLine]) -> String {
    let lines: Vec<String> = files
        .iter()
        .map(|file| format!("{} {} {}", file.digest, file.bytes, file.name))
        .collect();
    SCRIPT
        .replacen("site=SITE\n", &format!("site='{site}'\n"), 1)
        .replacen("files='FILES'", &format!("files='{}'", lines.join("\n")), 1)
}

/// Removes packages of an earlier kit from the site's folder; returns their names.
pub(super) fn remove_others(
    media: &Media,
    folder: &Path,
    files: &[ChecksumLine],
) -> Result<Vec<String>, Failure> {
    let Some(own) = media
        .subfolder(&folder.to_string_lossy())
        .map_err(|error| Failure::file(&error))?
    else {
        return Ok(Vec::new());
    };
    let wanted = |name: &OsStr| {
        (Path::new(name).extension().is_some_and(|end| end == "deb") || name == "agent.toml")
            && !files.iter().any(|file| OsStr::new(&file.name) == name)
    };
    let listing = own
        .files(
            Bounds {
                depth: 0,
                ..LOOKED_AT
            },
            wanted,
        )
        .map_err(|error| Failure::file(&error))?;
    let mut removed = Vec::new();
    for file in listing.files {
        own.remove(&file).map_err(|error| Failure::file(&error))?;
        removed.push(file.display().to_string());
    }
    Ok(removed)
}

/// The page for the person at the machine, with all sites that the stick has a script for.
pub(super) fn page(media: &Media) -> Result<String, Failure> {
    let listing = media
        .files(LOOKED_AT, |name| name == "start.sh")
        .map_err(|error| Failure::file(&error))?;
    let sites: Vec<String> = listing
        .files
        .iter()
        .filter_map(|file| file.parent()?.to_str())
        .filter(|site| !site.is_empty())
        .map(|site| format!("     {site:<20} {site}/start.sh"))
        .collect();
    Ok(PAGE.replacen("     SITES", &sites.join("\n"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_have_three_parts_and_nothing_for_a_shell() {
        for good in [
            "outhaul-agent_0.1.0-1_amd64.deb",
            "libc6_2.36-9+deb12u10_arm64.deb",
            "python3-jinja2_3.1.2-1+deb12u2_all.deb",
            "tar_1%3a1.34~rc1_amd64.deb",
        ] {
            assert!(is_package_name(good), "{good}");
        }
        for bad in [
            "outhaul-agent.deb",
            "a_b_c",
            "a_b_$(id).deb",
            "a_b_c d.deb",
            "a_b_c'.deb",
            "-rf_1_amd64.deb",
            "a__amd64.deb",
            ".._1_amd64.deb",
            "a_b\n_c.deb",
        ] {
            assert!(!is_package_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_script_names_its_site_and_every_file() {
        let text = script(
            "press-7",
            &[
                ChecksumLine::of("press-7.kit", b"kit"),
                ChecksumLine::of("a_1_all.deb", b""),
            ],
        );
        assert!(text.contains("\nsite='press-7'\n"), "{text}");
        let first = format!("files='{} 3 press-7.kit\n", Digest::of(b"kit").hex());
        assert!(text.contains(&first), "{text}");
        assert!(text.contains(" 0 a_1_all.deb'\n"), "{text}");
        assert!(!text.contains("FILES") && !text.contains("=SITE"), "{text}");
    }
}
