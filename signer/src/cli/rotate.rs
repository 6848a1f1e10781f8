//! `outhaul-signer rotate`: new keys in place of old ones.

use std::path::PathBuf;

use clap::ValueEnum;
use outhaul_signer::Fleet;
use outhaul_signer::ceremony::RootChange;

use super::{Common, Result, root};

/// Replace keys of the fleet by new ones: after a theft, after a fast-forward attack, or in time.
///
/// Example: `outhaul-signer --passphrase-file pass rotate ./fleet online`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fleet's folder
    folder: PathBuf,
    /// Which keys; `root` replaces each root key of which the private half is here
    #[arg(value_enum, required = true)]
    keys: Vec<Keys>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Keys {
    All,
    Online,
    Root,
    Targets,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let all = self.keys.contains(&Keys::All);
        let changes: Vec<_> = [
            (Keys::Online, RootChange::RotateOnline),
            (Keys::Targets, RootChange::RotateTargets),
            (Keys::Root, RootChange::RotateRoot),
        ]
        .into_iter()
        .filter(|(keys, _)| all || self.keys.contains(keys))
        .map(|(_, change)| change)
        .collect();
        let fleet = Fleet::open(&self.folder)?;
        let state = fleet.change_root(&changes, common.sign_at(&fleet)?, &common.secret()?)?;
        Ok(root::print_done(common, &state))
    }
}
