//! `outhaul-hub backup` and `restore`: a hub in one file, and back.

use std::path::PathBuf;

use outhaul_bundle::Digest;
use outhaul_kit::text;

use super::database::Database;
use super::{Common, Output, print};
use crate::backup::{self, restore};
use crate::error::HubError;
use crate::time;

/// Write the hub's database and key into one file, also while it serves
///
/// Prints the digest of the file: note it apart from the file, and give it to `restore`. The key rests in the file as in the
/// state folder, encrypted with its passphrase or not; the passphrase is not in it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub backup --to /media/backup/hub-2026-11-23.backup --state hub"
)]
pub(crate) struct Backup {
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// Bring a hub back from a backup, into a folder where no hub is
///
/// Everything in the file is checked before the hub is there. From then on gates start from nothing: reports, approvals, waivers and
/// deferrals from before the restore do not count, because what was lost is unknown. Reports that sites make and bring
/// from then on do.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub restore /media/backup/hub-2026-11-23.backup --state hub \
                        --passphrase-file hub.passphrase"
)]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The digest that `backup` printed
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    digest: Option<String>,
    /// Bring it back into this PostgreSQL database, which is empty: see `outhaul-hub init --help`
    #[arg(long, value_name = "ADDRESS")]
    database: Option<Database>,
}

pub(super) fn write(common: &Common, args: &Backup) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let done = backup::write(&mut hub, &common.state, &args.to, time::now_ms())?;
    match common.output {
        Output::Json => print::json(&done),
        Output::Text => {
            print::data(&format!(
                "backup of the hub of fleet `{}`, {} bytes: `{}`",
                done.fleet,
                done.size,
                text::path(&args.to)
            ));
            print::data(&format!("digest {}", done.digest));
        }
    }
    print::talk(match (done.has_key, done.key_encrypted) {
        (true, true) => {
            "note the digest apart from the file; `restore` needs the key's passphrase, which is not in it"
        }
        (true, false) => {
            "note the digest apart from the file; the hub's key rests unencrypted in it: whoever has it can acknowledge as \
             this hub"
        }
        (false, _) => {
            "note the digest apart from the file; the hub's key is not in it, because it does not rest in the state folder"
        }
    });
    Ok(0)
}

pub(super) fn restore(common: &Common, args: &Restore) -> Result<u8, HubError> {
    let database = args.database.as_ref().map(Database::address);
    let database = database.transpose()?;
    let back = restore::restore(
        &args.file,
        &common.state,
        args.digest.as_deref(),
        common.passphrase_file.as_deref(),
        database.as_ref(),
        time::now_ms(),
    )?;
    match common.output {
        Output::Json => print::json(&back),
        Output::Text => print::data(&format!(
            "the hub of fleet `{}` is back in `{}`, as it was at {}",
            back.fleet,
            text::path(&common.state),
            back.made_at
        )),
    }
    print::talk(
        "gates start from nothing: reports, approvals, waivers and deferrals from before do not count; a site counts again by a \
         report that it makes and that comes in from now on, and people approve, waive and defer again",
    );
    print::talk(
        "tokens are as they were then: one that was revoked after the backup is valid again, and `outhaul-hub token list` shows all",
    );
    if !back.has_key {
        print::talk(
            "note: the key is not in the backup: bring it back as `hub.key` or as the systemd credential `outhaul-hub.key`",
        );
    }
    print::talk(
        "next: start the hub, and take a stick with its acknowledgements (`outhaul-hub acks STICK`) to the sites that no \
         network reaches; docs/runbooks/hub-lost.md has the rest",
    );
    Ok(0)
}

fn digest(text: &str) -> Result<String, String> {
    let hex = text
        .strip_prefix("sha256:")
        .unwrap_or(text)
        .to_ascii_lowercase();
    Digest::from_hex(&hex)
        .map(|digest| digest.to_string())
        .map_err(|error| format!("{error}; `outhaul-hub backup` printed it"))
}
