//! `outhaul-signer countersign`: another key's signature, where that key is.

use outhaul_kit::text::json_path;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use outhaul_kit::console;
use outhaul_kit::text::printable_lines;
use outhaul_place::PlaceRefused;
use outhaul_signer::command::CommandKey;
use outhaul_signer::durable::{self, PUBLIC_MODE};
use outhaul_signer::media;
use outhaul_signer::metadata::Signs;
use outhaul_signer::request::{MAX_BYTES, SigningAnswer, SigningRequest};
use outhaul_signer::review::{self, Review};
use outhaul_signer::trust::walk::MAX_ROOT_BYTES;
use outhaul_signer::{PublicKey, SigningKey};
use serde_json::json;

use super::{CommandOutcome, Common, Failure, Result, root};

/// Fewest digits of a digest that name what is signed.
const MIN_DIGITS: usize = 16;
/// Longest answer to the question, in bytes.
const MAX_ANSWER_BYTES: usize = 1024;

/// Sign a request with another key, and write the answer.
///
/// It shows what the signature would change, compared with the root metadata that you have: every key
/// kept, added and removed, thresholds, dates, a bundle's number, digest and contents. What does not
/// follow from your root is refused. Then it asks for the name of what you sign; a script names it with
/// `--digest`, as `--show` printed it. Keep `1.root.json` of your fleet for this: any root that you once
/// verified will do, newer ones are followed from it.
///
/// Example: `outhaul-signer --passphrase-file pass countersign 2.root.json.request --root 1.root.json
/// --key vault-b.pem`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The request's file
    request: PathBuf,
    /// Root metadata of the fleet that you have verified, such as your copy of `1.root.json`
    #[arg(long, value_name = "FILE")]
    root: PathBuf,
    /// Only show what would be signed
    #[arg(long)]
    show: bool,
    /// What you sign, without being asked: the digest that `--show` printed, or its first 16 digits or more
    #[arg(long, value_name = "HEX", conflicts_with = "show")]
    digest: Option<String>,
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
    /// The public half of the key, PEM [default: `.pub` beside the private key]
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Where the answer goes [default: beside the request, named after the key]
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
}

/// Refuses a place for the answer. Beside its request it goes wherever that lies: in a fleet's folder as well.
fn refuse_place(path: &Path, request: &Path) -> std::result::Result<(), PlaceRefused> {
    let is_answer = |there: &[u8]| SigningAnswer::from_bytes(there).is_ok();
    match outhaul_place::folder_of(path) == outhaul_place::folder_of(request) {
        true => outhaul_place::refuse_other_kind(path, "an answer", is_answer),
        false => outhaul_place::refuse_file(path, "an answer", is_answer),
    }
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let refuse = |error: &(dyn std::error::Error + 'static)| {
            Failure::Refused(outhaul_kit::text::chain(error))
        };
        if let Some(answer) = &self.answer {
            refuse_place(answer, &self.request)?;
        }
        let bytes = media::read_file(&self.request, MAX_BYTES as u64)?;
        let request = SigningRequest::from_bytes(&bytes).map_err(|error| refuse(&error))?;
        let own_root = media::read_file(&self.root, MAX_ROOT_BYTES)?;
        let public = self.public()?;
        let review = review::review(&request, &own_root, public.as_ref(), common.now())?;
        if self.show {
            let value = request.value().map_err(|error| refuse(&error))?;
            common.print(
                &review.to_string(),
                &json!({
                    "fleet": request.fleet, "digest": review.digest(), "name": review.name(),
                    "review": review, "signed": value,
                }),
            );
            return Ok(CommandOutcome::Done);
        }
        console::always(&printable_lines(&review.to_string()));
        self.confirm(&review)?;
        let key: Box<dyn Signs> = match (&self.key, &self.signer_command, public) {
            (Some(path), ..) => Box::new(SigningKey::load(path, &common.secret()?)?),
            (None, Some(program), Some(public)) => Box::new(CommandKey::new(program, public)),
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
        refuse_place(&path, &self.request)?;
        durable::write(&path, &answer.to_bytes(), PUBLIC_MODE)?;
        let id = key.public().id();
        common.print(
            &path.display().to_string(),
            &json!({"answer": json_path(&path), "key": id, "digest": review.digest()}),
        );
        Ok(CommandOutcome::Done)
    }

    /// The public half of the key that is to sign, when it is known before anything is opened.
    fn public(&self) -> std::result::Result<Option<PublicKey>, Failure> {
        let beside = self.key.as_ref().map(|key| key.with_extension("pub"));
        match (&self.public_key, beside.filter(|path| path.is_file())) {
            (Some(path), _) => root::read_public(path).map(Some),
            (None, Some(path)) => root::read_public(&path).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Nothing is signed before someone named it.
    fn confirm(&self, review: &Review) -> std::result::Result<(), Failure> {
        let (name, digest) = (review.name(), review.digest());
        if let Some(given) = &self.digest {
            let given = given.to_ascii_lowercase();
            let named = given.len() >= MIN_DIGITS && digest.starts_with(&given);
            return match named {
                true => Ok(()),
                false => Err(Failure::Refused(format!(
                    "`--digest {given}` is not what this request asks for ({digest}); nothing was signed\n\
                     help: read what is shown above again; give the whole digest, or its first \
                     {MIN_DIGITS} digits or more"
                ))),
            };
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage(format!(
                "there is no terminal at which to confirm; nothing was signed\nhelp: read what is shown above, and name \
                 what you sign: `--digest {digest}`"
            )));
        }
        let _ = write!(std::io::stderr(), "To sign this, type `{name}`: ");
        let mut typed = String::new();
        let mut input = std::io::Read::take(std::io::stdin().lock(), MAX_ANSWER_BYTES as u64);
        // What cannot be read is not the name.
        let _ = std::io::BufReader::new(&mut input).read_line(&mut typed);
        if typed.trim() == name {
            return Ok(());
        }
        Err(Failure::Refused(
            "that is not what is asked for; nothing was signed".to_owned(),
        ))
    }
}
