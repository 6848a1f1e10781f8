//! One Debian package: what it holds, and how it is put together.
//!
//! What comes in: built programs, and generated man pages and completions. What goes out: the `.deb`. The lists of
//! this file are the whole contents; the scripts of dpkg are in `xtask/debian/`, units in `systemd/`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::program;
use crate::repository::{output, root};

/// The time of every file: 2026-01-01T00:00:00Z. Two builds of the same programs give the same bytes.
const TIME: &str = "1767225600";

/// The same as a changelog has it.
const TIME_AS_DEBIAN: &str = "Thu, 01 Jan 2026 00:00:00 +0000";
const MAINTAINER: &str = "Outhaul authors <packages@outhaul.dev>";
/// Debian has the text of the license on every machine.
const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nSource: \
                         https://github.com/outhaul/outhaul\n\nFiles: *\nCopyright: 2026 Outhaul authors\nLicense: \
                         Apache-2.0\n\nLicense: Apache-2.0\n The text is in \
                         /usr/share/common-licenses/Apache-2.0 on Debian systems.\n";
/// Where its sources are.
const HOMEPAGE: &str = "https://github.com/outhaul/outhaul";

/// What one package is.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// Its programs.
    pub programs: &'static [&'static str],
    /// Cargo's profile for them.
    pub profile: &'static str,
    /// What it needs beside libraries.
    depends: &'static [&'static str],
    /// What is of use with it.
    suggests: &'static str,
    /// The line that lists show.
    summary: &'static str,
    /// What `apt show` prints below it.
    description: &'static [&'static str],
    /// Files of `systemd/` that systemd reads.
    units: &'static [&'static str],
    /// The name of its files in `sysusers.d` and `tmpfiles.d`.
    users: &'static str,
    /// Files for people, relative to the repository.
    documents: &'static [&'static str],
    /// Files of `systemd/` that people may use.
    examples: &'static [&'static str],
}

/// Whatever makes users without systemd running.
const SYSUSERS: &str = "systemd | systemd-standalone-sysusers";

/// The packages.
pub const PACKAGES: [Package; 3] = [
    Package {
        name: "outhaul-agent",
        programs: &["outhaul-agent", "outhaul-mirror"],
        profile: "site",
        depends: &[],
        suggests: "ansible-core",
        summary: "workload management without a network: the agent of a site",
        description: &[
            "Verifies signed bundles that come on a stick or over a link that is up at",
            "times, applies them through the reconciler of the site, and queues reports",
            "until they can travel back. outhaul-mirror serves images, charts and git",
            "repositories of the active bundle to the site.",
        ],
        units: &[
            "outhaul-agent.service",
            "outhaul-agent-sync.service",
            "outhaul-agent-sync.timer",
            "outhaul-mirror.service",
            "outhaul-apply.socket",
            "outhaul-apply@.service",
        ],
        users: "outhaul-agent",
        documents: &["systemd/README.md", "docs/operator.md"],
        examples: &[
            "unprivileged.conf",
            "outhaul-apply-ansible.conf",
            "outhaul-apply-kubernetes.conf",
        ],
    },
    Package {
        name: "outhaul-hub",
        programs: &["outhaul-hub"],
        profile: "release",
        depends: &[SYSUSERS],
        suggests: "",
        summary: "workload management without a network: the hub",
        description: &[
            "Takes the signed reports of sites from sticks and over HTTPS, shows the fleet,",
            "and decides whether a change may go on to the next environment.",
        ],
        units: &["outhaul-hub.service"],
        users: "outhaul-hub",
        documents: &["systemd/README.md", "docs/hub-pages.md"],
        examples: &[],
    },
    Package {
        name: "outhaul",
        programs: &["outhaul", "outhaul-signer", "outhaul-audit"],
        profile: "release",
        depends: &["git", SYSUSERS],
        suggests: "helm",
        summary: "workload management without a network: the tools of the centre",
        description: &[
            "Decides what runs where, composes its configuration, renders it for each",
            "reconciler, and writes signed bundles onto sticks. outhaul-signer holds the",
            "root keys of a fleet, outhaul-audit recomputes the decisions of a hub.",
        ],
        units: &["outhaul-serve.service"],
        users: "outhaul-serve",
        documents: &[
            "systemd/README.md",
            "docs/command-line.md",
            "docs/glossary.md",
        ],
        examples: &[],
    },
];

/// The crate that a program is of.
pub fn crate_of(program: &str) -> &str {
    match program {
        "outhaul" => "outhaul-bundler",
        "outhaul-mirror" => "outhaul-serve",
        other => other,
    }
}

/// A package that is being made.
#[derive(Debug)]
pub struct Making<'a> {
    /// Which.
    pub package: &'a Package,
    /// Its built programs.
    pub programs: Vec<PathBuf>,
    /// Man pages and completions of all programs.
    pub shared: &'a Path,
    /// The version.
    pub version: &'a str,
    /// How `dpkg-deb` compresses.
    pub compression: &'a str,
}

impl Making<'_> {
    /// Puts it together in a separate folder, and has `dpkg-deb` write it into `folder`; returns the file.
    pub fn make(&self, folder: &Path) -> Result<PathBuf> {
        let staged = tempfile::tempdir()?;
        let top = staged.path().join("package");
        let (name, lists) = (self.package.name, self.package);
        for program in &self.programs {
            let file = program.file_name().context("a program without a name")?;
            let target = top.join("usr/bin").join(file);
            put(program, &target, 0o755)?;
            strip(&target)?;
            self.manuals(&top, &file.to_string_lossy())?;
        }
        let systemd = root().join("systemd");
        for unit in lists.units {
            put(
                &systemd.join(unit),
                &top.join("usr/lib/systemd/system").join(unit),
                0o644,
            )?;
        }
        for kind in ["sysusers.d", "tmpfiles.d"] {
            let file = format!("{kind}/{}.conf", lists.users);
            put(
                &systemd.join(&file),
                &top.join("usr/lib").join(&file),
                0o644,
            )?;
        }
        let documents = top.join("usr/share/doc").join(name);
        write(&documents.join("copyright"), COPYRIGHT.as_bytes())?;
        let changes = format!(
            "{name} ({}) unstable; urgency=medium\n\n  * See {HOMEPAGE}\n\n -- {MAINTAINER}  {TIME_AS_DEBIAN}\n",
            self.version
        );
        write(
            &documents.join("changelog.Debian.gz"),
            &packed(changes.as_bytes())?,
        )?;
        for document in lists.documents {
            let file = Path::new(document)
                .file_name()
                .context("a document without a name")?;
            put(&root().join(document), &documents.join(file), 0o644)?;
        }
        for example in lists.examples {
            put(
                &systemd.join(example),
                &documents.join("examples").join(example),
                0o644,
            )?;
        }
        let processor = self.control(&top)?;
        for folder in folders(&top)? {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        }
        let file = folder.join(format!("{name}_{}_{processor}.deb", self.version));
        let mut build = Command::new("dpkg-deb");
        build
            .args(["--build", "--root-owner-group", "--threads-max=1"])
            .arg(format!("-Z{}", self.compression))
            .args([&top, &file])
            .env("SOURCE_DATE_EPOCH", TIME);
        let done = build.output().context("cannot run dpkg-deb")?;
        if !done.status.success() {
            bail!("dpkg-deb: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(file)
    }

    /// Man pages (compressed, as Debian wants them) and completions of one program.
    fn manuals(&self, top: &Path, program: &str) -> Result<()> {
        let pages = self.shared.join("man1");
        for page in fs::read_dir(&pages)? {
            let page = page?.file_name().to_string_lossy().into_owned();
            if owner(&page) != Some(program) {
                continue;
            }
            let target = top.join("usr/share/man/man1").join(format!("{page}.gz"));
            write(&target, &packed(&fs::read(pages.join(&page))?)?)?;
        }
        for (file, target) in [
            (
                format!("{program}.bash"),
                format!("bash-completion/completions/{program}"),
            ),
            (
                format!("_{program}"),
                format!("zsh/vendor-completions/_{program}"),
            ),
            (
                format!("{program}.fish"),
                format!("fish/vendor_completions.d/{program}.fish"),
            ),
        ] {
            let from = self.shared.join("completions").join(file);
            put(&from, &top.join("usr/share").join(target), 0o644)?;
        }
        Ok(())
    }

    /// Writes what dpkg reads; returns the name of the processor.
    fn control(&self, top: &Path) -> Result<&'static str> {
        let mut processors = Vec::new();
        let mut loading = Vec::new();
        for path in &self.programs {
            let (processor, loads) = program::read(path)?;
            processors.push(processor);
            if loads {
                loading.push(path.as_path());
            }
        }
        processors.dedup();
        let [processor] = processors[..] else {
            bail!(
                "the programs of {} are for several processors",
                self.package.name
            );
        };
        let mut depends: Vec<String> = self
            .package
            .depends
            .iter()
            .map(ToString::to_string)
            .collect();
        if !loading.is_empty() {
            depends.insert(0, program::libraries(&loading)?);
        }
        let mut sums = String::new();
        let mut bytes = 0;
        for file in files(top)? {
            let relative = file.strip_prefix(top)?.display().to_string();
            bytes += fs::metadata(&file)?.len();
            let sum = output("md5sum", [&file])?;
            let sum = sum.split_whitespace().next().unwrap_or_default();
            sums.push_str(&format!("{sum}  {relative}\n"));
        }
        let field = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("{name}: {value}\n"),
        };
        let lists = self.package;
        let text = [
            field("Package", lists.name),
            field("Version", self.version),
            field("Architecture", processor),
            field("Maintainer", MAINTAINER),
            field("Installed-Size", &bytes.div_ceil(1024).to_string()),
            field("Depends", &depends.join(", ")),
            field("Suggests", lists.suggests),
            field("Section", "admin"),
            field("Priority", "optional"),
            field("Homepage", HOMEPAGE),
            field("Description", lists.summary),
            format!(" {}\n", lists.description.join("\n ")),
        ]
        .concat();
        let control = top.join("DEBIAN");
        for (name, text) in [("control", &text), ("md5sums", &sums)] {
            write(&control.join(name), text.as_bytes())?;
        }
        for script in ["postinst", "prerm", "postrm"] {
            let from = root().join(format!("xtask/debian/{}.{script}", lists.name));
            put(&from, &control.join(script), 0o755)?;
        }
        Ok(processor)
    }
}

/// The program that a man page is of: `outhaul-agent-enrol.1` is `outhaul-agent`'s, and not `outhaul`'s.
fn owner(page: &str) -> Option<&'static str> {
    let stem = page.strip_suffix(".1")?;
    let programs = PACKAGES.iter().flat_map(|package| package.programs);
    programs
        .copied()
        .filter(|program| {
            let rest = stem.strip_prefix(program);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
        .max_by_key(|program| program.len())
}

/// Removes what only debuggers read.
fn strip(program: &Path) -> Result<()> {
    let (processor, _) = program::read(program)?;
    // Of another machine's programs the binutils of this one understand nothing; cargo stripped those.
    if processor == native()? {
        output("strip", [program])?;
    }
    Ok(())
}

/// Debian's name of this machine's processor.
fn native() -> Result<String> {
    Ok(output("dpkg", ["--print-architecture"])?.trim().to_owned())
}

/// Compressed, without a name and a time in it.
fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

/// A file that everyone may read.
fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    make_folder(to)?;
    fs::write(to, bytes)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    make_folder(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy `{}`", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// The folder that a file lies in.
fn make_folder(file: &Path) -> Result<()> {
    let parent = file.parent().context("a file without a folder")?;
    fs::create_dir_all(parent)?;
    Ok(())
}

/// Every file below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A folder and every folder below it.
fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![folder.to_path_buf()];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(folders(&path)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_man_page_goes_with_its_own_program_and_every_list_names_files_that_are_there() {
        assert_eq!(owner("outhaul-agent-enrol.1"), Some("outhaul-agent"));
        assert_eq!(owner("outhaul-bundle.1"), Some("outhaul"));
        assert_eq!(owner("outhaul.1"), Some("outhaul"));
        assert_eq!(owner("outhauling.1"), None);
        for package in &PACKAGES {
            let systemd = package
                .units
                .iter()
                .chain(package.examples)
                .map(|name| format!("systemd/{name}"));
            let documents = package.documents.iter().map(ToString::to_string);
            for file in systemd.chain(documents) {
                assert!(root().join(&file).is_file(), "{file} of {}", package.name);
            }
        }
    }
}
