//! A flat apt repository: `Packages`, `Release`, and what a site's mirror gets of them.
//!
//! What comes in: packages with what they say of themselves, and where each lies. What goes out: the index files, the same
//! bytes for the same packages. `Release` has a constant date: `apt` takes no older one after a newer one, and after a
//! rollback a site serves what it served before. It signs nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use outhaul_bundle::Digest;
use outhaul_bundle::name::RelativePath;
use serde_json::json;

use crate::deb::Package;

/// The folder of a workload's payload with what is made here.
pub const FOLDER: &str = "outhaul-apt";
/// The index of the packages.
pub const PACKAGES: &str = "Packages";
/// What signs the index.
pub const RELEASE: &str = "Release";
/// The same, signed.
pub const SIGNED: &str = "InRelease";
pub use outhaul_kit::carried::{APT_KEY as KEY, CATALOG};
/// The date of every release.
const DATE: &str = "Sun, 13 Sep 2020 12:26:40 UTC";
/// Fields that are written here, whatever a package says.
const OWN: [&str; 6] = ["filename", "size", "md5sum", "sha1", "sha256", "sha512"];

/// A package of the repository.
#[derive(Debug, Clone)]
pub struct PackageEntry {
    /// What it says of itself.
    pub package: Package,
    /// The text of its control file.
    pub control: String,
    /// Its content.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
    /// Where it lies in the repository.
    pub path: RelativePath,
}

/// Two packages that no repository can have both.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{first}` and `{second}` are both {name} {version} for {architecture}")]
pub struct SamePackage {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its architecture.
    pub architecture: String,
    /// One.
    pub first: String,
    /// The other.
    pub second: String,
}

/// Whether a file of a payload with packages depends on who signs, and not on the packages alone.
pub fn depends_on_signer(path: &str) -> bool {
    let below = path
        .strip_prefix(FOLDER)
        .and_then(|rest| rest.strip_prefix('/'));
    path == CATALOG || below.is_some_and(|name| name == SIGNED || name == KEY)
}

/// The file name that a package has in an archive: without an epoch, as Debian names them.
pub fn file_name(package: &Package) -> String {
    let version = package
        .version
        .split_once(':')
        .map_or(&*package.version, |(_, rest)| rest);
    format!("{}_{version}_{}.deb", package.name, package.architecture)
}

/// `Packages`.
///
/// # Errors
/// [`SamePackage`] for two contents that say that they are the same package.
pub fn packages(all: &[PackageEntry]) -> Result<String, SamePackage> {
    let mut by_name = BTreeMap::new();
    for one in all {
        let Package {
            name,
            version,
            architecture,
            ..
        } = &one.package;
        if let Some(other) = by_name.insert((name, version, architecture), one)
            && other.digest != one.digest
        {
            return Err(SamePackage {
                name: name.clone(),
                version: version.clone(),
                architecture: architecture.clone(),
                first: other.path.as_str().to_owned(),
                second: one.path.as_str().to_owned(),
            });
        }
    }
    let mut out = String::new();
    for one in by_name.values() {
        let mut keeps = true;
        for line in one
            .control
            .lines()
            .take_while(|line| !line.trim().is_empty())
        {
            // A line that begins with a space belongs to the field before.
            if !line.starts_with([' ', '\t']) {
                let field = line
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                keeps = !OWN.contains(&&*field);
            }
            if keeps {
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
        let _ = write!(
            out,
            "Filename: {}\nSize: {}\nSHA256: {}\n\n",
            one.path.as_str(),
            one.size,
            one.digest.hex()
        );
    }
    Ok(out)
}

/// `Release` of a repository with this `Packages`. `label` is the workload's assignment.
pub fn release(label: &str, packages: &str, all: &[PackageEntry]) -> String {
    let mut architectures: Vec<&str> = all
        .iter()
        .map(|one| one.package.architecture.as_str())
        .collect();
    architectures.sort_unstable();
    architectures.dedup();
    format!(
        "Origin: Outhaul\nLabel: {label}\nSuite: outhaul\nDate: {DATE}\nArchitectures: {}\nDescription: packages of {label}\n\
         SHA256:\n {} {} {PACKAGES}\n",
        architectures.join(" "),
        Digest::of(packages.as_bytes()).hex(),
        packages.len()
    )
}

/// One file of the repository, as the mirror gets it.
#[derive(Debug, Clone)]
pub struct Served {
    /// Where it lies, relative to the workload's payload.
    pub place: String,
    /// Its content.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
}

/// What a site's mirror reads beside it: which files it serves, by their paths in the repository.
pub fn catalog(name: &str, files: &BTreeMap<String, Served>) -> String {
    let files: BTreeMap<_, _> = files
        .iter()
        .map(|(path, file)| {
            // The catalog lies in our folder, and what a workload brings beside it.
            let file =
                json!({ "file": file.place, "digest": file.digest.to_string(), "size": file.size });
            (path, file)
        })
        .collect();
    let catalog = json!({
        "format": "outhaul-catalog-v1",
        "packages": [{ "name": name, "files": files }],
    });
    format!("{catalog:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, version: &str, content: &[u8]) -> PackageEntry {
        let package = Package {
            name: name.into(),
            version: version.into(),
            architecture: "all".into(),
            source: (name.into(), version.into()),
            vendor: None,
        };
        PackageEntry {
            control: format!(
                "Package: {name}\nVersion: {version}\nArchitecture: all\nFilename: /etc/passwd\n more\nDescription: a\n b\n\nSize: 3\n"
            ),
            digest: Digest::of(content),
            size: content.len() as u64,
            path: file_name(&package).parse().unwrap(),
            package,
        }
    }

    #[test]
    fn an_index_has_what_a_package_says_and_where_it_lies_is_ours() {
        let all = [listed("b", "1:2", b"b"), listed("a", "1", b"a")];
        let text = packages(&all).unwrap();
        let a = Digest::of(b"a").hex();
        assert!(
            text.starts_with(&format!(
                "Package: a\nVersion: 1\nArchitecture: all\nDescription: a\n b\nFilename: a_1_all.deb\nSize: 1\nSHA256: {a}\n\n"
            )),
            "{text}"
        );
        assert!(
            text.contains("Filename: b_2_all.deb\n")
                && !text.contains("passwd")
                && !text.contains("more"),
            "{text}"
        );
        let release = release("hello-dev", &text, &all);
        assert!(release.contains(&format!(
            " {} {} Packages\n",
            Digest::of(text.as_bytes()).hex(),
            text.len()
        )));
        assert!(
            release.contains("Label: hello-dev\n") && release.contains("Architectures: all\n"),
            "{release}"
        );
    }

    #[test]
    fn what_a_key_has_a_part_in_is_known_by_its_path() {
        for path in [
            "outhaul-catalog.json",
            "outhaul-apt/InRelease",
            "outhaul-apt/key.asc",
        ] {
            assert!(depends_on_signer(path), "{path}");
        }
        for path in [
            "outhaul-apt/Packages",
            "InRelease",
            "outhaul-apt-x/key.asc",
            "outhaul-apt",
        ] {
            assert!(!depends_on_signer(path), "{path}");
        }
    }

    #[test]
    fn one_version_with_two_contents_is_refused_and_one_content_twice_is_one_package() {
        let error = packages(&[listed("a", "1", b"a"), listed("a", "1", b"b")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`a_1_all.deb` and `a_1_all.deb` are both a 1 for all"
        );
        let twice = packages(&[listed("a", "1", b"a"), listed("a", "1", b"a")]).unwrap();
        assert_eq!(twice.matches("Package: a\n").count(), 1);
    }
}
