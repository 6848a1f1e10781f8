//! `outhaul-signer countersign`: another key's signature, where that key is.

use std::path::PathBuf;

use outhaul_signer::SigningKey;
use outhaul_signer::command::CommandKey;
use outhaul_signer::durable::{self, PUBLIC_MODE};
use outhaul_signer::metadata::Signs;
use outhaul_signer::request::{MAX_BYTES, SigningRequest};
use serde_json::json;

use super::{Common, Failure, Outcome, Result, root};

/// Sign a request with another key, and write the answer.
///
/// First run it with `--show`, and read what would be signed.
///
/// Example: `outhaul-signer --passphrase-file pass countersign 2.root.json.request --key vault-b.pem`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The request's file
    request: PathBuf,
    /// Only show what would be signed
    #[arg(long)]
    show: bool,
    /// The private key
    #[arg(long, value_name = "FILE", required_unless_present_any = ["show", "signer_command"])]
    key: Option<PathBuf>,
    /// A program that holds the key: it reads the bytes on stdin and writes the 64 bytes of the
    /// signature, raw or in hexadecimal, on stdout
    #[arg(
        long,
        value_name = "PROGRAM",
        requires = "public_key",
        conflicts_with = "key"
    )]
    signer_command: Option<PathBuf>,
    /// The public half of the program's key, PEM
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Where the answer goes [default: beside the request, named after the key]
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let refuse = |error: &dyn std::error::Error| Failure::Refused(super::chain(error));
        let bytes = durable::read(&self.request, MAX_BYTES as u64)?;
        let request = SigningRequest::from_bytes(&bytes).map_err(|error| refuse(&error))?;
        let summary = request.summary().map_err(|error| refuse(&error))?;
        if self.show {
            let value = request.value().map_err(|error| refuse(&error))?;
            common.print(&summary, &json!({"fleet": request.fleet, "signed": value}));
            return Ok(Outcome::Done);
        }
        eprintln!("{summary}");
        let key: Box<dyn Signs> = match (&self.key, &self.signer_command, &self.public_key) {
            (Some(path), ..) => Box::new(SigningKey::load(path, &common.secret()?)?),
            (None, Some(program), Some(public)) => {
                Box::new(CommandKey::new(program, root::read_public(public)?))
            }
            _ => {
                return Err(Failure::Usage(
                    "say `--key` or `--signer-command`".to_owned(),
                ));
            }
        };
        let answer = request.answer(&*key).map_err(|error| refuse(&error))?;
        let beside = format!(
            "{}.{}.answer",
            self.request.display(),
            key.public().short_id()
        );
        let path = self.answer.unwrap_or_else(|| PathBuf::from(beside));
        durable::write(&path, &answer.to_bytes(), PUBLIC_MODE)?;
        let id = key.public().id();
        common.print(
            &path.display().to_string(),
            &json!({"answer": path, "key": id}),
        );
        Ok(Outcome::Done)
    }
}
