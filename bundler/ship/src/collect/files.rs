//! What a workload lists in `outhaul-files.toml`: files, and Debian packages with a repository made of them.
//!
//! What comes in: the list among a workload's manifests, and someone who brings a file. What goes out: files of the
//! assignment's payload: what is listed, and for packages the index of a flat apt repository, signed with the fleet's
//! key, with the catalog by which a site's mirror serves it. Whatever cannot be had is that assignment's error.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use outhaul_bundle::Digest;
use outhaul_bundle::index::{Content, File};
use outhaul_bundle::name::RelativePath;
use outhaul_control::diagnostic::Location;
use outhaul_files::apt::{self, PackageEntry as ListedPackage, Served};
use outhaul_files::deb;
use outhaul_files::list::{self, Fetched};
use outhaul_git::source::{OpenedSource, TreeLimits};
use outhaul_needs::{ListError, ListOfFiles};
use outhaul_plane::render::RenderedAssignment;
use outhaul_signer::durable;
use outhaul_signer::openpgp::PackageSigner;

use super::places::Folded;
use super::{CollectError, Collector, ImageError, failed, folder, relative};
use crate::assemble::Spool;

/// The list of an assignment; `None` where its workload has none.
pub(super) fn read_list(
    name: &str,
    assignment: &RenderedAssignment,
    opened: &OpenedSource,
) -> Result<Option<ListOfFiles>, CollectError> {
    ListOfFiles::read(opened, folder(assignment)).map_err(|error| match error {
        ListError::Source(source) => failed(name, source),
        ListError::Problems(problems) => CollectError::FileList {
            assignment: name.to_owned(),
            problems,
        },
    })
}

/// The paths that a list adds to a payload, as far as they are known before anything is fetched.
pub(super) fn paths_of(listed: &ListOfFiles) -> Vec<String> {
    let files = listed.list.files.iter();
    let mut paths: Vec<String> = files.map(|one| one.path.as_str().to_owned()).collect();
    if has_packages(listed) {
        paths.push(apt::CATALOG.to_owned());
        for name in [apt::PACKAGES, apt::RELEASE, apt::SIGNED, apt::KEY] {
            paths.push(format!("{}/{name}", apt::FOLDER));
        }
        // Of their names nothing is known yet: digests are as long as a name needs.
        let fetched = listed.list.packages.iter();
        paths.extend(fetched.map(|one| format!("{}/{}.deb", apt::FOLDER, one.digest.hex())));
    }
    paths
}

fn has_packages(listed: &ListOfFiles) -> bool {
    !listed.list.packages.is_empty() || !listed.list.own_packages.is_empty()
}

impl Collector<'_> {
    /// That the hosts of everything that a list names may be asked.
    pub(super) fn permits_listed(
        &self,
        name: &str,
        listed: &ListOfFiles,
    ) -> Result<(), CollectError> {
        let files = listed.list.files.iter().map(|one| &one.content);
        for one in files.chain(&listed.list.packages) {
            let permitted = self.permitted(&one.url);
            permitted.map_err(|error| not_fetched(name, listed, one, error))?;
        }
        Ok(())
    }

    /// Brings everything that a list names, and reads its packages, so that what cannot be had or is none is known before
    /// anything is packed.
    pub(super) fn bring_listed(
        &self,
        name: &str,
        listed: &ListOfFiles,
        (opened, folder): (&OpenedSource, &str),
    ) -> Result<(), CollectError> {
        for one in &listed.list.files {
            self.fetched(name, listed, &one.content, false)?;
        }
        let mut all: Vec<ListedPackage> = Vec::new();
        let own = &listed.list.own_packages;
        let wanted = |path: &str| own.keys().any(|own| own.as_str() == path);
        let limits = TreeLimits::PAYLOAD;
        let read = opened.each::<CollectError>(folder, &wanted, &limits, &mut |file| {
            let path = relative(name, &file.path)?;
            let content = Content {
                digest: Digest::of(&file.bytes),
                size: file.bytes.len() as u64,
            };
            let what = (path.as_str(), listed.at_own(&path));
            all.push(package(name, what, &file.bytes[..], content, Some(&path))?);
            Ok(())
        });
        read.map_err(|error| match error {
            CollectError::Unread(source) => failed(name, source),
            other => other,
        })?;
        if let Some(path) = own
            .keys()
            .find(|path| all.iter().all(|one| one.path != **path))
        {
            return Err(no_such_package(name, listed, path));
        }
        for one in &listed.list.packages {
            let content = self.fetched(name, listed, one, true)?;
            let Some(source) = self.files else { continue };
            let what = || (one.url.as_str(), listed.at(one));
            let file = durable::open_file(&source.folder().join(content.digest.hex()));
            let file = file.map_err(|error| wrong(name, what(), error.to_string()))?;
            let found = package(name, what(), file, content, None)?;
            if all.iter().any(|other| other.path == found.path) {
                let problem = format!("another package is `{}`, too", found.path.as_str());
                return Err(wrong(name, what(), problem));
            }
            all.push(found);
        }
        let packages = apt::packages(&all).map(drop);
        packages.map_err(|error| wrong(name, (list::FILE, listed.top()), error.to_string()))
    }

    /// Adds what a list names to the files of a payload.
    pub(super) fn add_listed(
        &self,
        name: &str,
        listed: &ListOfFiles,
        files: &mut Vec<File>,
        spool: &mut Spool,
    ) -> Result<(), CollectError> {
        for one in &listed.list.files {
            let content = self.fetched(name, listed, &one.content, false)?;
            self.lend_file(content, spool);
            files.push(file_of(one.path.clone(), content));
        }
        if has_packages(listed) {
            self.add_packages(name, listed, files, spool)?;
        }
        Ok(())
    }

    fn add_packages(
        &self,
        name: &str,
        listed: &ListOfFiles,
        files: &mut Vec<File>,
        spool: &mut Spool,
    ) -> Result<(), CollectError> {
        let mut all = Vec::new();
        let mut served = BTreeMap::new();
        for path in listed.list.own_packages.keys() {
            // It was there when the list was looked at.
            let Some(found) = files.iter().find(|file| file.path == *path) else {
                continue;
            };
            let content = Content {
                digest: found.content,
                size: found.size,
            };
            let file = spool.open(&content.digest)?;
            let what = (path.as_str(), listed.at_own(path));
            all.push(package(name, what, file, content, Some(path))?);
            served.insert(path.as_str().to_owned(), place(path.as_str(), content));
        }
        for one in &listed.list.packages {
            let content = self.fetched(name, listed, one, true)?;
            self.lend_file(content, spool);
            let file = spool.open(&content.digest)?;
            let found = package(name, (&one.url, listed.at(one)), file, content, None)?;
            let here = format!("{}/{}", apt::FOLDER, found.path.as_str());
            files.push(file_of(relative(name, &here)?, content));
            served.insert(found.path.as_str().to_owned(), place(&here, content));
            all.push(found);
        }
        let packages = apt::packages(&all);
        let packages =
            packages.map_err(|error| wrong(name, (list::FILE, listed.top()), error.to_string()))?;
        let release = apt::release(name, &packages, &all);
        let mut made = vec![(apt::PACKAGES, packages), (apt::RELEASE, release.clone())];
        // An estimate has no key; nobody installs from one.
        if let Some(signer) = &self.signer {
            let signer = PackageSigner::of(signer);
            made.push((apt::SIGNED, signer.sign_clear(&release)));
            made.push((apt::KEY, signer.armored_key()));
        }
        for (of, text) in made {
            let (digest, size) = spool.add(text.as_bytes())?;
            let content = Content { digest, size };
            let here = format!("{}/{of}", apt::FOLDER);
            served.insert(of.to_owned(), place(&here, content));
            files.push(file_of(relative(name, &here)?, content));
        }
        let (digest, size) = spool.add(apt::catalog(name, &served).as_bytes())?;
        files.push(file_of(
            relative(name, apt::CATALOG)?,
            Content { digest, size },
        ));
        Ok(())
    }

    /// A content that a list names, here; of one that is not `needed` now only its size may be known.
    fn fetched(
        &self,
        name: &str,
        listed: &ListOfFiles,
        fetched: &Fetched,
        needed: bool,
    ) -> Result<Content, CollectError> {
        let Fetched { url, digest, .. } = fetched;
        let failed = |error| not_fetched(name, listed, fetched, error);
        let Some(source) = self.files else {
            return Err(failed(ImageError {
                message: "nothing here fetches files".to_owned(),
                is_environment: false,
                help: None,
            }));
        };
        self.permitted(url).map_err(failed)?;
        let brought = source.bring_file(url, self.sources, *digest, needed);
        brought.map_err(|mut error| {
            error.help.get_or_insert_with(|| {
                format!(
                    "see that the address and `sha256` are right (`curl --location {url} | sha256sum`), and that the \
                     server lets you in (`auths` in the file of `docker login`, `REGISTRY_AUTH_FILE`)"
                )
            });
            failed(error)
        })
    }

    fn lend_file(&self, content: Content, spool: &mut Spool) {
        if let Some(source) = self.files {
            let path = source.folder().join(content.digest.hex());
            if fs::exists(&path).unwrap_or_default() {
                self.lend(content, path, spool);
            }
        }
    }
}

fn not_fetched(
    name: &str,
    listed: &ListOfFiles,
    fetched: &Fetched,
    error: ImageError,
) -> CollectError {
    CollectError::Image {
        assignment: name.to_owned(),
        what: format!("file `{}`", fetched.url),
        at: Some(Box::new(listed.at(fetched))),
        pinned: false,
        error,
    }
}

/// That each package which a list takes from among the manifests (`paths`) is there, and that what it brings lies where nothing of them does.
pub(super) fn fits(name: &str, listed: &ListOfFiles, paths: &[String]) -> Result<(), CollectError> {
    let taken = |what: String, other: String, at: Location| CollectError::ListedPlace {
        assignment: name.to_owned(),
        what,
        other,
        at: Box::new(at),
    };
    for path in listed.list.own_packages.keys() {
        if !paths.iter().any(|one| one == path.as_str()) {
            return Err(no_such_package(name, listed, path));
        }
    }
    let mut places = Folded::default();
    for path in paths {
        places.insert(path);
    }
    for one in &listed.list.files {
        let path = one.path.as_str();
        if let Some(other) = places.meets(path) {
            let is_own = paths.iter().any(|path| path == other);
            let what = format!("`{}` lists a file for `{path}`", list::FILE);
            let other = match is_own {
                true => format!("the workload's manifests have `{other}` there"),
                false => format!(
                    "one for `{other}`: they differ by case alone or are both file and folder"
                ),
            };
            return Err(taken(what, other, listed.at(&one.content)));
        }
        places.insert(path);
    }
    if !has_packages(listed) {
        return Ok(());
    }
    for made in [apt::FOLDER, apt::CATALOG] {
        if let Some(other) = places.meets(made) {
            let what = format!(
                "of the packages in `{}` a repository is made, with `{made}`",
                list::FILE
            );
            let other = format!("there is `{other}` already");
            return Err(taken(what, other, listed.top()));
        }
    }
    Ok(())
}

/// A package that is listed by its path and is not there.
fn no_such_package(name: &str, listed: &ListOfFiles, path: &RelativePath) -> CollectError {
    let problem = "it is not among the workload's manifests".to_owned();
    wrong(name, (path.as_str(), listed.at_own(path)), problem)
}

fn wrong(name: &str, (what, at): (&str, Location), problem: String) -> CollectError {
    CollectError::Package {
        assignment: name.to_owned(),
        what: what.to_owned(),
        problem,
        at: Box::new(at),
    }
}

/// A package as its repository has it: at `path`, or under the name that Debian gives it.
fn package(
    name: &str,
    (what, at): (&str, Location),
    from: impl Read,
    content: Content,
    path: Option<&RelativePath>,
) -> Result<ListedPackage, CollectError> {
    let read = deb::read_with_control(from);
    let (package, control) = read.map_err(|error| wrong(name, (what, at), error.to_string()))?;
    let path = match path {
        Some(path) => path.clone(),
        None => relative(name, &apt::file_name(&package))?,
    };
    Ok(ListedPackage {
        package,
        control,
        digest: content.digest,
        size: content.size,
        path,
    })
}

fn file_of(path: RelativePath, content: Content) -> File {
    File {
        path,
        content: content.digest,
        size: content.size,
        executable: false,
    }
}

fn place(place: &str, content: Content) -> Served {
    Served {
        place: place.to_owned(),
        digest: content.digest,
        size: content.size,
    }
}
