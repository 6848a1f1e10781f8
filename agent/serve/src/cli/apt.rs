//! `outhaul-mirror apt`: apt on this machine installs from the packages that bundles brought.
//!
//! What comes in: the active generation's apt repositories, the mirror's address and authority, and apt's folder. What goes
//! out: three files of our own in it: the sources with the key that signs them, where the authority is, and a copy of it,
//! since apt reads it as a user that cannot enter the agent's folder. They name no generation: what is served changes
//! with the active bundle. Files of others are neither read nor written.

use outhaul_kit::text::json_path;
use outhaul_kit::url::UrlParts;
use std::path::{Path, PathBuf};

use outhaul_kit::console;
use outhaul_kit::durable;
use outhaul_kit::text::printable;
use serde_json::json;

use super::containerd::mirror;
use crate::catalog::Catalog;
use crate::containerd::Mirror;
use crate::digest::Digest;
use crate::error::ServeError;
use crate::packages::{KEY, PREFIX, Repository};
use crate::settings::Settings;

/// Largest key and largest authority in bytes.
const MAX_BYTES: u64 = 64 * 1024;
const SOURCES: &str = "sources.list.d/outhaul.sources";
const SETTINGS: &str = "apt.conf.d/90outhaul";
const AUTHORITY: &str = "outhaul-mirror-ca.pem";

/// Have apt on this machine install from the packages that bundles brought
///
/// Writes three files of its own, and no other one; `--remove` removes them. Repeat it when a bundle brings packages of
/// another workload, and after the fleet has changed its keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  outhaul-mirror apt\n  outhaul-mirror apt --remove")]
pub(super) struct Apt {
    /// apt's folder
    #[arg(long, value_name = "DIR", default_value = "/etc/apt")]
    dir: PathBuf,
    /// Remove what this command wrote
    #[arg(long)]
    remove: bool,
}

/// Removes the three files.
pub(super) fn remove(args: &Apt) -> Result<u8, ServeError> {
    let mut removed = Vec::new();
    for name in [SOURCES, SETTINGS, AUTHORITY] {
        let path = args.dir.join(name);
        if path.exists() {
            durable::remove_file(&path)?;
            removed.push(path);
        }
    }
    shown("removed", &removed);
    Ok(0)
}

impl Apt {
    /// Whether it is to remove.
    pub(super) fn removes(&self) -> bool {
        self.remove
    }
}

/// Writes them; the exit code.
pub(super) fn write(
    state: &Path,
    settings: &Settings,
    catalog: Option<&Catalog>,
    args: &Apt,
) -> Result<u8, ServeError> {
    let mirror = mirror(state, settings)?;
    let none = || {
        ServeError::Usage {
        problem: "the active bundle brings no Debian packages".to_owned(),
        help: "a workload lists them in `outhaul-files.toml`; `outhaul-mirror check` lists what is served".to_owned(),
    }
    };
    let repositories = catalog.map(Catalog::packages).filter(|all| !all.is_empty());
    let repositories = repositories.ok_or_else(none)?;
    let mut sources =
        "# Written by `outhaul-mirror apt`; `outhaul-mirror apt --remove` removes it.\n".to_owned();
    for (name, repository) in repositories {
        let key = key(repository).map_err(|problem| ServeError::Usage {
            problem: format!("apt repository `{name}`: its key {problem}"),
            help: "import the bundle again".to_owned(),
        })?;
        sources.push_str(&source(&mirror, name, &key));
    }
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    let mut files = vec![(SOURCES, sources.into_bytes())];
    if let Some(authority) = &mirror.authority {
        files.push((
            SETTINGS,
            apt_settings(&mirror, &dir.join(AUTHORITY)).into_bytes(),
        ));
        files.push((AUTHORITY, durable::read(authority, MAX_BYTES)?));
    }
    let mut written = Vec::new();
    // The sources last: apt finds the authority that they need.
    for (name, bytes) in files.into_iter().rev() {
        let path = dir.join(name);
        if let Some(folder) = path.parent() {
            durable::create_folder(folder)?;
        }
        durable::write(&path, &bytes, 0o644)?;
        written.push(path);
    }
    shown("written", &written);
    Ok(0)
}

fn shown(what: &str, paths: &[PathBuf]) {
    if console::is_json() {
        return console::result(
            json!({ what: paths.iter().map(|path| json_path(path)).collect::<Vec<_>>() }),
        );
    }
    if paths.is_empty() {
        return console::data("none of these files was there");
    }
    for path in paths {
        console::data(&printable(&format!("{what}    {}", path.display())));
    }
}

/// The key of a repository, which matches its digest.
fn key(repository: &Repository) -> Result<String, String> {
    let (digest, stored) = repository.file(KEY).ok_or("is missing")?;
    let bytes = stored.layout.read(&stored.path, MAX_BYTES);
    let bytes = bytes
        .map_err(|error| error.to_string())?
        .ok_or("is missing")?;
    match Digest::of(&bytes) == *digest {
        true => String::from_utf8(bytes).map_err(|_| "is not text".to_owned()),
        false => Err("does not match its digest".to_owned()),
    }
}

/// One source, with the key within it, as apt has it since version 2.4.
fn source(mirror: &Mirror, name: &str, key: &str) -> String {
    let mut text = format!(
        "\nTypes: deb\nURIs: {}/{PREFIX}/{name}/\nSuites: ./\nSigned-By:\n",
        mirror.url
    );
    for line in key.lines() {
        let line = if line.is_empty() { "." } else { line };
        text.push_str(&format!(" {line}\n"));
    }
    text
}

/// Where apt finds the authority of the mirror's certificate.
fn apt_settings(mirror: &Mirror, authority: &Path) -> String {
    let host = UrlParts::of(&mirror.url).map_or("", |url| url.host());
    format!(
        "// Written by `outhaul-mirror apt`.\nAcquire::https::{host}::CAInfo \"{}\";\n",
        authority.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_its_key_within_it_and_the_authority_is_for_the_mirror_alone() {
        let mirror = Mirror {
            url: "https://127.0.0.1:5443".into(),
            authority: None,
        };
        let text = source(&mirror, "dim", "-----BEGIN\n\nabc\n");
        assert_eq!(
            text,
            "\nTypes: deb\nURIs: https://127.0.0.1:5443/apt/dim/\nSuites: ./\nSigned-By:\n -----BEGIN\n .\n abc\n"
        );
        let settings = apt_settings(&mirror, Path::new("/etc/apt/outhaul-mirror-ca.pem"));
        assert!(
            settings
                .contains("Acquire::https::127.0.0.1::CAInfo \"/etc/apt/outhaul-mirror-ca.pem\";")
        );
    }
}
