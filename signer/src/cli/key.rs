//! `outhaul-signer key`: a key by itself, made where it will be used.

use std::path::PathBuf;

use outhaul_kit::interrupt;
use outhaul_place::refuse_file;
use outhaul_signer::SigningKey;
use outhaul_signer::durable::{self, PUBLIC_MODE};
use serde_json::json;

use super::{CommandOutcome, Common, Failure, Result};

/// Make a key that no fleet knows yet, for example a further root key on another machine.
///
/// Example: `outhaul-signer --passphrase-file pass key vault-b` writes `vault-b.pem` and `vault-b.pub`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Path of the new files, without their endings
    path: PathBuf,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let private = self.path.with_extension("pem");
        let public = self.path.with_extension("pub");
        if private.exists() || public.exists() {
            let there = private.display();
            return Err(Failure::Usage(format!(
                "`{there}` (or its `.pub`) is there already"
            )));
        }
        for path in [&private, &public] {
            refuse_file(path, "a key", |_| false)?;
        }
        let secret = common.new_secret()?;
        let key = SigningKey::generate()?;
        let _whole = interrupt::finishing();
        key.save(&private, &secret)?;
        durable::write(&public, key.public().to_pem().as_bytes(), PUBLIC_MODE)?;
        let id = key.public().id();
        common.print(
            &id,
            &json!({"id": id, "private": private, "public": public}),
        );
        super::say(&format!(
            "give `{}` away, keep `{}`",
            public.display(),
            private.display()
        ));
        Ok(CommandOutcome::Done)
    }
}
