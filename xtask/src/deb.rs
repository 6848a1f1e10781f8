//! `cargo xtask deb`: Debian packages of the agent, the hub and the tools.
//!
//! What comes in: the checkout, or a folder with built programs. What goes out: one `.deb` for each package in a
//! folder, and its name, size and digest on stdout. The same programs give the same bytes: files are sorted, belong to
//! root, and have one time. It installs nothing; what a package needs of a library is what `dpkg-shlibdeps` finds.

mod package;
mod program;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::repository::{cargo, cargo_build, output, root};
use package::{PACKAGES, Package};

/// Writes Debian packages of the agent, the hub and the tools.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask deb target/packages\n  cargo xtask deb target/packages --target \
                  x86_64-unknown-linux-musl --only outhaul-agent"
)]
pub struct Args {
    /// The folder to write them to.
    folder: PathBuf,
    /// Only this package (may be given more than once).
    #[arg(long, value_name = "PACKAGE")]
    only: Vec<String>,
    /// Build for this target of Rust; a `musl` one makes programs that need no library of the host.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Pack the programs of this folder and build nothing; `outhaul-manuals` has to be among them.
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    programs: Option<PathBuf>,
    /// Debian's own part of the version.
    #[arg(long, value_name = "N", default_value_t = 1)]
    revision: u32,
    /// How `dpkg-deb` compresses.
    #[arg(long, value_name = "NAME", default_value = "xz", value_parser = ["xz", "zstd", "gzip", "none"])]
    compression: String,
}

impl Args {
    /// Builds and packs.
    pub fn run(&self) -> Result<Vec<String>> {
        let packages = self.packages()?;
        for tool in ["dpkg-deb", "dpkg-shlibdeps"] {
            output(tool, ["--version"]).context("packages are made by Debian's own programs")?;
        }
        let (programs, manuals) = match &self.programs {
            Some(folder) => {
                let folder = std::path::absolute(folder)?;
                (
                    vec![(String::new(), folder.clone())],
                    folder.join("outhaul-manuals"),
                )
            }
            None => self.build(&packages)?,
        };
        let shared = tempfile::tempdir()?;
        let written = Command::new(&manuals)
            .arg(shared.path())
            .output()
            .with_context(|| format!("cannot start `{}`", manuals.display()))?;
        if !written.status.success() {
            bail!(
                "`{}`: {}",
                manuals.display(),
                String::from_utf8_lossy(&written.stderr).trim()
            );
        }
        std::fs::create_dir_all(&self.folder)?;
        // Programs are run at the repository's root.
        let folder = std::path::absolute(&self.folder)?;
        let version = format!("{}-{}", env!("CARGO_PKG_VERSION"), self.revision);
        for package in packages {
            let made = package::Making {
                package,
                programs: package
                    .programs
                    .iter()
                    .map(|name| find(&programs, name))
                    .collect(),
                shared: shared.path(),
                version: &version,
                compression: &self.compression,
            }
            .make(&folder)?;
            let digest = output("sha256sum", [&made])?;
            let bytes = std::fs::metadata(&made)?.len();
            let digest = digest.split_whitespace().next().unwrap_or_default();
            println!("{digest}  {bytes:>9} bytes  {}", made.display());
        }
        Ok(Vec::new())
    }

    fn packages(&self) -> Result<Vec<&'static Package>> {
        for name in &self.only {
            if !PACKAGES.iter().any(|package| package.name == name) {
                let known: Vec<&str> = PACKAGES.iter().map(|package| package.name).collect();
                bail!(
                    "there is no package `{name}`; there are: {}",
                    known.join(", ")
                );
            }
        }
        let wanted = |package: &&Package| {
            self.only.is_empty() || self.only.iter().any(|n| n == package.name)
        };
        Ok(PACKAGES.iter().filter(wanted).collect())
    }

    /// Builds the programs; each profile's folder, and the program that writes man pages.
    fn build(&self, packages: &[&Package]) -> Result<(Vec<(String, PathBuf)>, PathBuf)> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root().join(target);
        let built = match &self.target {
            Some(name) => target.join(name),
            None => target.clone(),
        };
        let mut folders = Vec::new();
        for package in packages {
            eprintln!(
                "building {} with profile `{}` …",
                package.programs.join(", "),
                package.profile
            );
            let mut build = cargo_build();
            build.args(["--locked", "--profile", package.profile]);
            for program in package.programs {
                build.args(["--package", package::crate_of(program), "--bin", program]);
                folders.push(((*program).to_owned(), built.join(package.profile)));
            }
            if let Some(target) = &self.target {
                build.args(["--target", target]);
            }
            if !build.status().context("cannot run cargo")?.success() {
                bail!("{} does not build", package.name);
            }
        }
        let manuals = Command::new(cargo())
            .args([
                "build",
                "--quiet",
                "--locked",
                "--package",
                "outhaul-manuals",
            ])
            .current_dir(root())
            .status()
            .context("cannot run cargo")?;
        if !manuals.success() {
            bail!("what writes the man pages does not build");
        }
        Ok((folders, target.join("debug/outhaul-manuals")))
    }
}

/// The file of a program, in its own folder or in the one for all.
fn find(folders: &[(String, PathBuf)], program: &str) -> PathBuf {
    let own = folders
        .iter()
        .find(|(name, _)| name == program || name.is_empty());
    own.map_or_else(
        || PathBuf::from(program),
        |(_, folder)| Path::join(folder, program),
    )
}
