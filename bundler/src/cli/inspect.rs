//! `outhaul inspect`: what a bundle file is, for whom, what is in it, and whether it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use outhaul_bundle::index::Index;
use outhaul_bundle::name::Name;
use outhaul_bundle::seal::Sealed;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::media;
use outhaul_signer::trust::TrustedMetadata;
use outhaul_signer::trust::walk::MAX_ROOT_BYTES;
use serde_json::json;

use super::failure::Failure;
use super::foreign;
use super::key::fleet_failure;
use super::piece::{checked, left_out_json, no_provenance, print_file};
use super::{Exit, Output, data, print_json, say};
use outhaul_attest::inspect::{self, InspectError, Inspection};
use outhaul_attest::verified::VerifiedImage;
use outhaul_control::overriding::Override;
use outhaul_kit::failure::Classified as _;
use outhaul_kit::format_count::format_count;
use outhaul_kit::text::named;
use outhaul_promote::overrides;

/// Most sites that are listed for one file or assignment.
const MAX_NAMED: usize = 5;

/// Show what a bundle is, for whom, what is in it, and whether it is whole
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul inspect --fleet fleet /media/stick/stage-press-3.outhaul"
)]
pub struct Args {
    /// The bundle
    file: PathBuf,
    /// Check its signatures as a site of this fleet would
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    fleet: Option<PathBuf>,
    /// Check its signatures against this root metadata (`1.root.json`)
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// List every file
    #[arg(long)]
    files: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        let root = match (&self.fleet, &self.root) {
            (Some(folder), _) => {
                let fleet = Fleet::open(folder).map_err(fleet_failure)?;
                Some(fleet.root_bytes().map_err(fleet_failure)?)
            }
            (None, Some(file)) => {
                let bytes = media::read_file(file, MAX_ROOT_BYTES)
                    .map_err(|error| Failure::file(&error))?;
                TrustedMetadata::enrol(&bytes).map_err(|error| {
                    let name = format!("`{}`, given with `--root`,", file.display());
                    foreign::not_a_root(&name, &bytes, &error)
                })?;
                Some(bytes)
            }
            (None, None) => None,
        };
        foreign::refuse_other_file(&self.file)?;
        let input = media::open_file(&self.file).map_err(|error| Failure::file(&error))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let found =
            inspect::inspect(input, root.as_deref(), Timestamp::now()).map_err(|error| {
                if let (InspectError::Trust(_), Some(root)) = (&error, &root)
                    && foreign::is_of_another_fleet(&self.file, root)
                {
                    return foreign::other_fleet(&self.file, &self.root_name());
                }
                let help = match error {
                    // Of whoever else takes it nothing is known here.
                    InspectError::Trust(_) => {
                        "no site of this fleet accepts this file; get the bundle again"
                    }
                    _ => "no site accepts this file; write the bundle again, or copy it again",
                };
                let cause = Failure::new(
                    error.class().code(),
                    &FileError {
                        file: self.file.display().to_string(),
                        error,
                    },
                );
                cause.help(help)
            })?;
        let outdated = self.outdated(&found.index);
        if self.output == Output::Json {
            let mut json = as_json(&found, self.overridden(&found.index).as_ref());
            json["outdated"] = json!(outdated);
            return print_json(&json);
        }
        self.print(&found);
        if let Some(why) = outdated {
            let help = match self.newer(&found.index) {
                Some(newest) => {
                    format!("number {newest} is the newest of the stream: take that one")
                }
                None => "`outhaul bundle` makes a new number of the stream".to_owned(),
            };
            say(&format!(
                "warning: this bundle is out of date: {why}\nhelp: {help}"
            ));
        }
        Ok(Exit::SUCCESS)
    }

    /// What the root is called, for messages.
    fn root_name(&self) -> String {
        foreign::root_name(self.root.as_deref(), self.fleet.as_deref())
    }

    /// Why it is not what the fleet would sign now.
    fn outdated(&self, index: &Index) -> Option<String> {
        let fleet = Fleet::open(self.fleet.as_ref()?).ok()?;
        foreign::outdated(&fleet, &self.file, index.stream.role.as_str())
    }

    /// The newest number of its stream, where that is another one and what the fleet would sign now.
    fn newer(&self, index: &Index) -> Option<u64> {
        let fleet = Fleet::open(self.fleet.as_ref()?).ok()?;
        let role = index.stream.role.as_str();
        let newest = fleet.latest(role).ok()??.number;
        let is_sound = outhaul_ship::stream::outdated(&fleet, role).ok()?.is_none();
        (newest > index.number && is_sound).then_some(newest)
    }

    /// Who went past the gate for the bundle's base commit, as the fleet has it on record.
    fn overridden(&self, index: &Index) -> Option<Override> {
        let fleet = self.fleet.as_ref()?;
        let environment = index.stream.environment.as_str();
        // A record that cannot be read says nothing about the bundle.
        overrides::newest(fleet, environment, &index.snapshot.base.commit)
            .ok()?
            .map(|(given, _)| given)
    }

    fn print(&self, found: &Inspection) {
        let index = &found.index;
        let stream = &index.stream;
        data(&format!(
            "bundle {} of stream {}/{} (role {}), fleet {}",
            index.number, stream.environment, stream.cluster_type, stream.role, index.fleet
        ));
        print_file(found);
        let sites: Vec<_> = index.recipients.iter().map(AsRef::as_ref).collect();
        data(&format!(
            "  for         {}",
            if sites.is_empty() {
                "every site of the stream".to_owned()
            } else {
                sites.join(", ")
            }
        ));
        data(&format!("  sealed      {}", seal_line(index)));
        if let Some(given) = &self.overridden(index) {
            data(&format!("  promoted    past the gate: {given}"));
        }
        data(&format!("  applied by  {}", index.reconciler.kind));
        if let Some(number) = index.requires {
            data(&format!(
                "  needs       generation {number} (this is a delta)"
            ));
        }
        match &found.trusted {
            Some(trusted) => data(&format!(
                "  signatures  hold for this fleet; issued {}, expires {}{}",
                trusted.issued,
                trusted.expires,
                if trusted.expired { " (EXPIRED)" } else { "" }
            )),
            None => data("  signatures  NOT checked: pass `--fleet DIR` or `--root FILE`"),
        }
        for role in &found.metadata {
            data(&format!(
                "    {:<34} version {:<3} expires {}  signed by {}",
                role.file,
                role.version,
                role.expires,
                role.signed_by.join(", ")
            ));
        }
        data(&format!("  snapshot    {}", index.snapshot.digest.short()));
        let sources = [&index.snapshot.environment, &index.snapshot.base];
        for source in sources.into_iter().chain(&index.snapshot.workloads) {
            let commit: String = source.commit.chars().take(15).collect();
            data(&format!(
                "    {:<20} {commit:<16} {}",
                source.name, source.repo
            ));
        }
        data(&format!("  assignments {}", index.assignments.len()));
        for assignment in &index.assignments {
            data(&format!(
                "    {} of {} ({}), config {}, {}, payload of {}",
                assignment.name,
                assignment.workspace,
                assignment.policies.join(", "),
                assignment.config_version.short(),
                format_count(assignment.files.len(), "file", "files"),
                format_count(assignment.payload.len(), "file", "files")
            ));
            if let Some(kind) = &assignment.bootstrap {
                data(&format!("      applied before the others by `{kind}`"));
            }
            if let Some(sites) = &assignment.sites {
                data(&format!("      only for {}", first_of(sites)));
            }
            for overlay in &assignment.overlays {
                data(&format!(
                    "      other for {}: config {}, {}",
                    first_of(&overlay.sites),
                    overlay.config_version.short(),
                    overlay
                        .files
                        .iter()
                        .map(|f| f.path.as_str())
                        .collect::<Vec<_>>()
                        .join(", ")
                ));
            }
            if self.files {
                let payload = assignment.payload.iter().map(|file| ("payload/", file));
                for (folder, file) in assignment.files.iter().map(|f| ("", f)).chain(payload) {
                    data(&format!("      {:>10}  {folder}{}", file.size, file.path));
                }
            }
        }
        print_served(found);
        data(&format!(
            "  size        {} bytes: {} of content in {} blobs of {} bytes; {}",
            found.bytes,
            index.content_bytes(),
            index.blobs.len(),
            index.carried_bytes(),
            checked(found)
        ));
    }
}

/// What the site serves.
fn print_served(found: &Inspection) {
    let (index, verified) = (&found.index, found.verified.as_deref());
    if verified.is_none() && !index.served.images.is_empty() {
        data(&format!(
            "  signers     of images are in the provenance, which is not readable here: {}",
            no_provenance(found)
        ));
    }
    for image in &index.served.images {
        let bytes = image.blobs.iter().map(|blob| blob.size).sum::<u64>() + image.manifest.size;
        let digest = image.manifest.digest.short();
        data(&format!(
            "  image       {} ({digest}), {bytes} bytes",
            image.name
        ));
        let of_it =
            |one: &&VerifiedImage| one.image == image.name && one.digest == image.manifest.digest;
        for one in verified.iter().flat_map(|all| all.iter().filter(of_it)) {
            data(&format!("              signed by {}", one.by.sentence()));
        }
    }
    for one in &index.served.repositories {
        let refs: Vec<String> = one
            .refs
            .iter()
            .map(|(name, commit)| format!("{name} at {}", commit.get(..15).unwrap_or(commit)))
            .collect();
        data(&format!(
            "  repository  {}: {}, {} bytes",
            one.url,
            refs.join(", "),
            one.pack.size
        ));
    }
}

/// Whether it is encrypted, and who can open it.
fn seal_line(index: &Index) -> String {
    let sealed: Vec<&Sealed> = index
        .blobs
        .iter()
        .filter_map(|b| b.sealed.as_ref())
        .collect();
    match sealed.first() {
        None => "no: whoever has the file can read it".to_owned(),
        Some(first) if sealed.len() == index.blobs.len() => {
            format!(
                "for {}; no other key opens the contents. Names, sizes and the SHA-256 of each content are not sealed: whoever guesses a \
                 content, such as a short value, can tell that it is the one",
                first.readers()
            )
        }
        Some(first) => format!(
            "in part: {} of {} blobs, for {}",
            sealed.len(),
            index.blobs.len(),
            first.readers()
        ),
    }
}

/// The first of them by name, and how many more.
fn first_of(names: &BTreeSet<Name>) -> String {
    named(names.iter().map(Name::as_str), MAX_NAMED)
}

/// The error with the file's name in front.
#[derive(Debug, thiserror::Error)]
#[error("`{file}`")]
struct FileError {
    file: String,
    #[source]
    error: inspect::InspectError,
}

fn as_json(found: &Inspection, overridden: Option<&Override>) -> serde_json::Value {
    let sealed: BTreeMap<_, _> = found
        .index
        .blobs
        .iter()
        .filter_map(|blob| blob.sealed.as_ref())
        .flat_map(|sealed| &sealed.recipients)
        .collect();
    let sizes = BTreeMap::from([
        ("file", found.bytes),
        ("carried", found.index.carried_bytes()),
        ("content", found.index.content_bytes()),
    ]);
    json!({
        "index": found.index,
        "part": found.volume.as_ref().filter(|volume| !volume.is_since()).map(|volume| json!({
            "number": volume.part(), "of": volume.parts(), "blobs": volume.carried(&found.index).len(),
        })),
        "parity": found.parity.as_ref().map(|parity| json!({
            "number": parity.part(), "of": parity.of(), "parts": parity.parts(),
        })),
        "left_out": found.volume.as_ref().and_then(|volume| left_out_json(volume, &found.index, found.twins)),
        "signed": found.verified.as_ref().map(|all| all.iter().map(VerifiedImage::json).collect::<Vec<_>>()),
        "metadata": found.metadata,
        "bytes": sizes,
        "sealed_for": sealed,
        "override": overridden,
        "signatures": found.trusted.as_ref().map(|trusted| json!({
            "issued": trusted.issued.to_string(),
            "expires": trusted.expires.to_string(),
            "expired": trusted.expired,
        })),
    })
}
