//! `outhaul site kit`: a stick that makes a bare machine a site.
//!
//! What comes in: a fleet, a site and its stream, the agent's packages, perhaps settings, and a stick. What goes out: a
//! folder of the site's name on the stick with packages, kit, settings and the script that installs them, the stream's
//! newest bundle, and one page for the person at the machine. It signs nothing: the script has the digests of all that it
//! installs, and the script's own digest is printed, to be brought to the site by another way than the stick.

use outhaul_kit::text::json_path;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_copy::copies;
use outhaul_kit::media::{Media, read_file};
use outhaul_signer::durable::{self, PUBLIC_MODE, SECRET_MODE};
use outhaul_signer::enrol::{Kit, MAX_KIT_BYTES};
use outhaul_signer::fleet::Fleet;
use outhaul_sites::{NewKit, Sites};
use serde_json::json;

use super::enrol::{self, Enrolment};
use crate::cli::failure::{self, Failure};
use crate::cli::key::fleet_failure;
use crate::cli::{Exit, Output, data, print_json, say};

mod stick;

use stick::Package;

/// Largest file of settings, in bytes.
const MAX_SETTINGS_BYTES: u64 = 256 * 1024;

/// Put everything on a stick that makes a bare machine a site: packages, kit, bundle, and one script to start
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On the machine, as root:\n  sh /media/stick/press-7/start.sh\n\nIt installs, enrols, applies the bundle, and \
                  writes the request and the first reports to the stick. The same command again takes what the stick \
                  brings next. A stick may hold several sites.\n\nExample:\n  outhaul site kit press-7 --fleet fleet \
                  --environment stage --cluster-type press --package outhaul-agent_0.1.0-1_amd64.deb --stick \
                  /media/stick"
)]
pub(super) struct Args {
    #[command(flatten)]
    enrolment: Enrolment,
    /// A Debian package that the machine gets, the agent's among them (may be given more than once: for other
    /// processors, and for what the reconciler needs)
    #[arg(long, value_name = "FILE", required = true)]
    package: Vec<PathBuf>,
    /// Settings for the machine: its `agent.toml`, unless it has one
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// A kit that `outhaul site enrol` wrote for the site, in the place of a new one
    #[arg(long, value_name = "FILE", conflicts_with = "again")]
    kit: Option<PathBuf>,
    /// Where to: a folder that is there, such as the place where a stick is mounted
    #[arg(long, value_name = "DIR")]
    stick: PathBuf,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        crate::cli::places::folder(&self.stick)?;
        let fleet = Fleet::open(&self.enrolment.fleet).map_err(fleet_failure)?;
        // A stick that is not mounted is not made up.
        let media = Media::open(&self.stick).map_err(|error| Failure::file(&error))?;
        let packages = stick::packages(&self.package)?;
        let settings = self.settings()?;
        let site = self.enrolment.site.as_str();
        let folder = PathBuf::from(site);
        let name = folder.join(format!("{site}.kit"));
        let (kit, new) = self.kit(&fleet, &media, &name)?;
        let kit_bytes = kit.to_bytes();
        let write = |bytes: &[u8]| {
            let written = media.write(&name, bytes, SECRET_MODE);
            written.map_err(|error| Failure::file(&error))
        };
        match &new {
            Some(new) => Sites::of(&fleet).enrol(new, write)?,
            None => write(&kit_bytes)?,
        }

        let mut files = vec![stick::ChecksumLine::of(&format!("{site}.kit"), &kit_bytes)];
        for package in &packages {
            files.push(package.copy(&self.stick.join(&folder))?);
        }
        if let Some(settings) = &settings {
            media
                .write(&folder.join("agent.toml"), settings, SECRET_MODE)
                .map_err(|error| Failure::file(&error))?;
            files.push(stick::ChecksumLine::of("agent.toml", settings));
        }
        let script = stick::script(site, &files);
        let start = folder.join("start.sh");
        media
            .write(&start, script.as_bytes(), 0o755)
            .map_err(|error| Failure::file(&error))?;
        let left = stick::remove_others(&media, &folder, &files)?;
        let bundle = self.bundle(&fleet)?;
        let page = stick::page(&media)?;
        media
            .write(Path::new("START-HERE.txt"), page.as_bytes(), PUBLIC_MODE)
            .map_err(|error| Failure::file(&error))?;
        media.sync().map_err(|error| Failure::file(&error))?;

        let digest = Digest::of(script.as_bytes());
        if self.output == Output::Json {
            return print_json(&json!({
                "site": site, "kit_id": kit.id(), "new_kit": new.is_some(),
                "start": json_path(&self.stick.join(&start)), "sha256": digest.hex(),
                "packages": packages.iter().map(Package::name).collect::<Vec<_>>(),
                "bundle": bundle.as_ref().map(|(number, file)| json!({ "number": number, "file": json_path(file) })),
                "removed": left,
            }));
        }
        let stream = format!("{}/{}", kit.stream.environment, kit.stream.cluster_type);
        let which = match new {
            Some(_) => "a new kit",
            None => "the kit that it has",
        };
        say(&format!(
            "`{}` makes a machine the site `{site}` of {stream}: {which}, {}",
            self.stick.join(&folder).display(),
            packages
                .iter()
                .map(Package::name)
                .collect::<Vec<_>>()
                .join(", ")
        ));
        match &bundle {
            Some((number, file)) => say(&format!("bundle {number}: {}", file.display())),
            None => say(&format!(
                "there is no bundle of {stream} yet, so that nothing is applied on the first visit\n\
                 help: `outhaul bundle --environment {} …`, and this command once more",
                kit.stream.environment
            )),
        }
        for file in &left {
            say(&format!("removed what is not of this kit any more: {file}"));
        }
        say(
            "the person at the machine compares this number, which has to come by another way than the stick, \
             before starting anything:",
        );
        data(&format!("{}  {}", digest.hex(), start.display()));
        say(&format!(
            "then, as root: sh {}",
            self.stick.join(&start).display()
        ));
        enrol::expected(&kit);
        Ok(Exit::SUCCESS)
    }

    /// The kit: the one that was given, the one that is on the stick already and still counts, or a new one.
    fn kit(
        &self,
        fleet: &Fleet,
        media: &Media,
        name: &Path,
    ) -> Result<(Kit, Option<NewKit>), Failure> {
        let (sites, site) = (Sites::of(fleet), &self.enrolment.site);
        let stream = self.enrolment.stream(&sites)?;
        if let Some(path) = &self.kit {
            let bytes =
                durable::read(path, MAX_KIT_BYTES as u64).map_err(|error| Failure::file(&error))?;
            let kit = Kit::from_bytes(&bytes).map_err(|error| {
                let message = format!("`{}` is not a usable kit: {error}", path.display());
                Failure::say(failure::USAGE, message)
                    .help("give the file that `outhaul site enrol` wrote")
            })?;
            if sites.counts(&kit, site, &stream)? {
                return Ok((kit, None));
            }
            let message = format!(
                "`{}` is a kit for `{}` of {}/{}, and not the one that counts for `{site}` of {}/{}",
                path.display(),
                kit.site,
                kit.stream.environment,
                kit.stream.cluster_type,
                self.enrolment.environment,
                self.enrolment.cluster_type
            );
            return Err(Failure::say(failure::REFUSED, message).help(
                "give the kit that was written last for this site, or `--again` in the place of `--kit` for a new one",
            ));
        }
        let there = media
            .read(name, MAX_KIT_BYTES as u64)
            .map_err(|error| Failure::file(&error))?;
        let there = there.and_then(|bytes| Kit::from_bytes(&bytes).ok());
        if let Some(kit) = &there {
            enrol::refuse_kit_of_other(kit, &media.path().join(name), site.as_str(), fleet.id())?;
        }
        if let Some(kit) = there.filter(|_| !self.enrolment.again)
            && sites.counts(&kit, site, &stream)?
        {
            return Ok((kit, None));
        }
        let new = self.enrolment.new_kit(fleet)?;
        Ok((new.kit.clone(), Some(new)))
    }

    /// Settings as they were given: whether each of them is known, the agent says.
    fn settings(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(path) = &self.settings else {
            return Ok(None);
        };
        let bytes = read_file(path, MAX_SETTINGS_BYTES).map_err(|error| Failure::file(&error))?;
        let parsed = String::from_utf8_lossy(&bytes).parse::<toml::Table>();
        parsed.map(|_| Some(bytes)).map_err(|error| {
            let message = format!("`{}`: {error}", path.display());
            Failure::say(failure::USAGE, message).help("correct the line")
        })
    }

    /// The stream's newest bundle onto the stick, where there is one.
    fn bundle(&self, fleet: &Fleet) -> Result<Option<(u64, PathBuf)>, Failure> {
        let role = fleet.role(
            self.enrolment.environment.as_str(),
            self.enrolment.cluster_type.as_str(),
        );
        if fleet.latest(&role).map_err(fleet_failure)?.is_none() {
            return Ok(None);
        }
        let kept = copies::kept(
            fleet,
            Some(self.enrolment.environment.as_str()),
            &[self.enrolment.cluster_type.to_string()],
        )
        .map_err(|error| Failure::of(&error))?;
        let Some(bundle) = kept.first() else {
            return Ok(None);
        };
        let copied = bundle
            .copy(&self.stick)
            .map_err(|error| Failure::of(&error))?;
        Ok(Some((bundle.number, copied.file)))
    }
}
