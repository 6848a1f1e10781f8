//! `outhaul verify`: whether a bundle is whole, trusted, and what its commits render to.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use outhaul_bundle::index::{Content, Index};
use outhaul_bundle::{Digest, Parity, Volume};
use outhaul_seal::{Identities, Identity};
use outhaul_signer::fleet::{Fleet, statement_keys};
use outhaul_signer::media;
use outhaul_signer::trust::TrustedMetadata;
use outhaul_signer::trust::walk::MAX_ROOT_BYTES;
use serde_json::{Value, json};

use super::failure::{self, Failure};
use super::foreign;
use super::key::fleet_failure;
use super::piece::{completed_by, left_out_json, parity_sentence, patches_checked};
use super::registries::RegistryArgs;
use super::render::InputArgs;
use super::{Exit, Output, data, print_json};
use crate::registries::{Registries, UserClient};
use outhaul_attest::contents::{self, ContentsError, Keys};
use outhaul_attest::inspect::{self, InspectError};
use outhaul_attest::statement_check::{self, Statement};
use outhaul_kit::durable;
use outhaul_kit::format_count::format_count;
use outhaul_ship::verify::{self, ContentDifference};

/// Check that a bundle is whole and trusted, and with `--snapshot` that its commits render to it
#[derive(Debug, clap::Args)]
#[command(
    // Here a control plane is needed for `--snapshot` alone.
    mut_arg("environment", |arg| arg.required(false)),
    mut_arg("control_plane", |arg| arg.required_unless_present("file")),
    after_help = "Example:\n  outhaul verify /media/stick/stage-press-3.outhaul --fleet fleet \
    --snapshot --environment stage --control-plane control-plane \
    --source https://git.factory.example/label-printer=label-printer\n\nExit code: 0 equal, 1 it differs, \
    4 it is not to be trusted"
)]
pub struct Args {
    /// The bundle
    file: PathBuf,
    /// Check its signatures as a site of this fleet would
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "root",
        required_unless_present = "root"
    )]
    fleet: Option<PathBuf>,
    /// Check its signatures against this root metadata (`1.root.json`)
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// A secret key that opens it, when it is sealed (may be given more than once)
    #[arg(long, value_name = "FILE")]
    identity: Vec<PathBuf>,
    /// Write the fleet's statements about the bundle into this folder: the signed one, and the bills of materials of the bundle
    /// and of its images. Only when all of it holds
    #[arg(long, value_name = "DIR")]
    attestations: Option<PathBuf>,
    /// Render the commits that it names again, and compare file by file
    #[arg(long, requires = "environment")]
    snapshot: bool,
    #[command(flatten)]
    registries: RegistryArgs,
    #[command(flatten)]
    input: InputArgs,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// [`Failure`]
    pub fn run(self) -> Result<Exit, Failure> {
        if let Some(folder) = &self.attestations {
            super::places::folder(folder)?;
        }
        let registries = self.snapshot.then(|| self.registries.client());
        let registries = registries.transpose()?;
        let root = self.root()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let now = jiff::Timestamp::now();
        let trusted =
            TrustedMetadata::enrol(&root).map_err(|error| self.bad_root(&root, &error))?;
        foreign::refuse_other_file(&self.file)?;
        let untrusted = |error: &dyn std::error::Error| {
            Failure::new(failure::TRUST, error).help(format!(
                "do not use `{}`; get the bundle again",
                self.file.display()
            ))
        };
        let found =
            inspect::inspect(self.open()?, Some(&root), now).map_err(|error| match error {
                InspectError::Trust(_) if foreign::is_of_another_fleet(&self.file, &root) => {
                    foreign::other_fleet(&self.file, &self.root_name())
                }
                error => untrusted(&error),
            })?;
        if let Some(volume) = &found.volume {
            return self.print_volume(&found.index, volume, found.twins);
        }
        if let Some(parity) = &found.parity {
            return self.print_parity(&found.index, parity);
        }
        let mut identities = Vec::new();
        for path in &self.identity {
            let key = Identity::load(path).map_err(|error| Failure::new(failure::USAGE, &error))?;
            identities.push(key);
        }
        let keys = Keys(Identities::new(identities));
        let index = found.index;
        let bytes = index.to_bytes();
        let expected = Content {
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
        };
        let attestations = contents::contents(self.open()?, &expected, &keys).map_err(|error| {
            if error.is_for_others() {
                return Failure::new(failure::USAGE, &error).help(
                    "its signatures hold; to look inside give the secret half of one of its keys: \
                         `--identity FILE`",
                );
            }
            if let ContentsError::Temporary { .. } = error {
                return Failure::new(failure::ENVIRONMENT, &error).help(
                    "this says nothing about the bundle: see that the folder for temporary files (`TMPDIR`, else `/tmp`) is there and has \
                     room, or set `TMPDIR` to another one, such as `TMPDIR=/var/tmp`, and run it again; it needs as much as the largest \
                     blob",
                );
            }
            untrusted(&error)
        })?;
        let statement =
            statement_check::check(&index, &attestations, Some(&statement_keys(&trusted)));
        let written = match &self.attestations {
            Some(folder) if statement.holds() => Some(write_all(folder, &attestations)?),
            _ => None,
        };
        let differences = registries
            .map(|registries| again(&self.input, registries, &index))
            .transpose()?;
        self.print_result(&index, &statement, (written, differences.as_deref()))
    }

    fn root(&self) -> Result<Vec<u8>, Failure> {
        match (&self.fleet, &self.root) {
            (Some(folder), _) => {
                let fleet = Fleet::open(folder).map_err(fleet_failure)?;
                fleet.newest_root_bytes().map_err(fleet_failure)
            }
            (None, Some(file)) => {
                media::read_file(file, MAX_ROOT_BYTES).map_err(|error| Failure::file(&error))
            }
            (None, None) => Err(Failure::say(failure::USAGE, "nothing to trust it by")
                .help("give `--fleet DIR` or `--root FILE`")),
        }
    }

    /// What the root is called, for messages.
    fn root_name(&self) -> String {
        foreign::root_name(self.root.as_deref(), self.fleet.as_deref())
    }

    /// Bytes that are not root metadata: the bundle was not read.
    fn bad_root(&self, bytes: &[u8], error: &dyn std::fmt::Display) -> Failure {
        foreign::not_a_root(&self.root_name(), bytes, error)
    }

    fn open(&self) -> Result<File, Failure> {
        media::open_file(&self.file).map_err(|error| Failure::file(&error))
    }

    /// What of a bundle a file has that is not the whole of it; each of its blobs was compared with its digest.
    fn print_volume(&self, index: &Index, volume: &Volume, twins: usize) -> Result<Exit, Failure> {
        let what = match volume.is_since() {
            true => format!("this copy is {}", completed_by(volume, index, twins)),
            false => format!("this is part {} of {}", volume.part(), volume.parts()),
        };
        let part =
            (!volume.is_since()).then(|| json!({ "number": volume.part(), "of": volume.parts() }));
        self.print_piece(
            index,
            json!({ "part": part, "left_out": left_out_json(volume, index, twins) }),
            [
                &format!(
                    "every blob in this file is right{}",
                    patches_checked(volume, index)
                ),
                &what,
                "content: not checked, which needs the whole bundle",
            ],
        )
    }

    /// What a parity part can prove: whose it is, and that it is as it was written.
    fn print_parity(&self, index: &Index, parity: &Parity) -> Result<Exit, Failure> {
        let what = format!("this is {}", parity_sentence(parity));
        let of = json!({ "number": parity.part(), "of": parity.of(), "parts": parity.parts() });
        self.print_piece(
            index,
            json!({ "parity": of }),
            [
                "the parity in this file is as it was written",
                &what,
                "content: parity is not signed; a site compares what it makes of it with the signed index",
            ],
        )
    }

    /// A file that is not the whole bundle: what of it holds, what it is, and what was not read.
    fn print_piece(
        &self,
        index: &Index,
        mut value: Value,
        [holds, what, content]: [&str; 3],
    ) -> Result<Exit, Failure> {
        if self.snapshot {
            let message = format!("`{}`: {what}", self.file.display());
            return Err(Failure::say(failure::USAGE, message)
                .help("`--snapshot` compares the whole bundle; without it this file is checked"));
        }
        if self.output == Output::Json {
            value["number"] = json!(index.number);
            value["stream"] = json!(index.stream);
            value["snapshot"] = json!(index.snapshot);
            value["trusted"] = json!(true);
            print_json(&value)?;
            return Ok(Exit::SUCCESS);
        }
        let stream = &index.stream;
        data(&format!(
            "bundle {} of {}/{}: signatures hold, {holds}",
            index.number, stream.environment, stream.cluster_type
        ));
        data(what);
        data(content);
        Ok(Exit::SUCCESS)
    }

    fn print_result(
        &self,
        index: &Index,
        statement: &Statement,
        (written, differences): (Option<usize>, Option<&[ContentDifference]>),
    ) -> Result<Exit, Failure> {
        let equal = differences.map(<[_]>::is_empty);
        let code = match verify::is_sound(statement, differences, self.attestations.is_some()) {
            true => Exit::SUCCESS,
            false => Exit::from(failure::REFUSED),
        };
        if self.output == Output::Json {
            print_json(&json!({
                "number": index.number,
                "stream": index.stream,
                "snapshot": index.snapshot,
                "trusted": true,
                "statement": statement,
                "attestations_written": written,
                "equal": equal,
                "kept": index.kept,
                "differences": differences,
            }))?;
            return Ok(code);
        }
        let stream = &index.stream;
        data(&format!(
            "bundle {} of {}/{}: whole, signatures hold",
            index.number, stream.environment, stream.cluster_type
        ));
        data(&match statement {
            Statement::Absent => "statement: none in this bundle".to_owned(),
            Statement::Unchecked => "statement: not checked".to_owned(),
            Statement::Holds => "statement: signed by the fleet, about these contents".to_owned(),
            Statement::Wrong(why) => format!("statement: NOT valid: {why}"),
        });
        if let Some(folder) = &self.attestations {
            let folder = folder.display();
            data(&match written {
                Some(count) => format!(
                    "attestations: {} written to `{folder}`",
                    format_count(count, "file", "files")
                ),
                None => format!(
                    "attestations: nothing written to `{folder}`: the statement does not hold"
                ),
            });
        }
        for (name, from) in &index.kept {
            data(&format!(
                "kept: `{name}` is broken in this snapshot and stays as snapshot {} had it",
                from.short()
            ));
        }
        match differences {
            None => data("content: not rendered again (pass `--snapshot`)"),
            Some([]) => data(&format!(
                "content: what snapshot {} renders to, file by file{}",
                index.snapshot.digest.short(),
                if index.kept.is_empty() {
                    ""
                } else {
                    "; what was kept cannot be compared with it"
                }
            )),
            Some(list) => {
                data(&format!(
                    "content: {} from its snapshot",
                    format_count(list.len(), "difference", "differences")
                ));
                for one in list {
                    data(&format!("  {}: {}", one.path, one.what));
                }
            }
        }
        Ok(code)
    }
}

/// Writes each of them; how many. What is there and is something else stays as it is, and nothing is written then: it may be
/// of another bundle.
fn write_all(folder: &Path, attestations: &BTreeMap<String, Vec<u8>>) -> Result<usize, Failure> {
    let mut others = Vec::new();
    for (name, bytes) in attestations {
        let there = durable::read_if_present(&folder.join(name), bytes.len() as u64 + 1);
        if !there.is_ok_and(|there| there.is_none_or(|there| there == *bytes)) {
            others.push(format!("`{name}`"));
        }
    }
    if !others.is_empty() {
        let message = format!(
            "`{}` has {} with another content, perhaps of another bundle; nothing was written",
            folder.display(),
            others.join(", ")
        );
        return Err(
            Failure::say(failure::USAGE, message).help("name a new folder with `--attestations`")
        );
    }
    durable::make_folder(folder).map_err(|error| Failure::file(&error))?;
    for (name, bytes) in attestations {
        // What the index lists is a relative path without `..`.
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            durable::make_folder(parent).map_err(|error| Failure::file(&error))?;
        }
        durable::write(&path, bytes, 0o644).map_err(|error| Failure::file(&error))?;
    }
    Ok(attestations.len())
}

/// Renders the index's commits again and compares.
fn again(
    input: &InputArgs,
    registries: UserClient,
    index: &Index,
) -> Result<Vec<ContentDifference>, Failure> {
    let stream = &index.stream;
    if input.environment() != stream.environment.as_str() {
        let message = format!(
            "the bundle is of environment `{}`, `--environment` names `{}`",
            stream.environment,
            input.environment()
        );
        return Err(Failure::say(failure::USAGE, message));
    }
    let platform = input.platform(Some(&index.snapshot))?;
    let registries = Registries::of(registries, &platform.cache).allowing(&platform.sources);
    verify::with_commits(index, &platform, &registries, &std::env::temp_dir())
        .map_err(|error| Failure::of(&error))
}
