//! `outhaul secret`: keys to seal for, and values that only sites can read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use outhaul_bundle::name::Name;
use outhaul_seal::marker::{self, Binding, MarkerError};
use outhaul_seal::{Identity, Recipient};
use outhaul_signer::durable;
use outhaul_signer::fleet::Fleet;
use serde_json::json;

use super::failure::{self, Failure};
use super::key::fleet_failure;
use super::{Exit, Output, data, print_json, say};
use outhaul_sites::readers::NamedRecipient;

/// Seal values for sites, and make keys to seal for
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: SecretCommand,
}

#[derive(Debug, Subcommand)]
enum SecretCommand {
    /// Make a key for a stream or for tests (a site makes its own): the secret half into a file
    #[command(after_help = "Example:\n  outhaul secret keygen --out stage-press.age")]
    Keygen {
        /// The file to write, mode 0600; what is there is not overwritten
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// How data is printed
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Seal one value, read from standard input, and print the marker to put into a config
    #[command(
        after_help = "Example:\n  printf %s \"$PASSWORD\" | outhaul secret seal --fleet 0123456789abcdef \
        --environment dev --workload label-printer --key PASSWORD --recipients press.keys\n\nThe marker is one \
        word. Put it where the value would stand, as the whole value:\n  PASSWORD: ENC[age,…]\nSites open it \
        there alone: for another fleet, environment, workload or key it is refused."
    )]
    Seal {
        #[command(flatten)]
        place: PlaceArgs,
        #[command(flatten)]
        readers: ReaderArgs,
        /// How data is printed
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

/// Where the value may be opened.
#[derive(Debug, clap::Args)]
struct PlaceArgs {
    /// The fleet: its id (16 hexadecimal digits), or its folder
    #[arg(long, value_name = "ID|DIR")]
    fleet: String,
    /// The environment
    #[arg(long, value_name = "NAME")]
    environment: Name,
    /// The workload that uses it (may be given more than once)
    #[arg(long, value_name = "NAME", required = true)]
    workload: Vec<Name>,
    /// The config key that it is the value of
    #[arg(long, value_name = "NAME")]
    key: Name,
}

impl PlaceArgs {
    fn binding(&self) -> Result<Binding, Failure> {
        let is_id = |text: &str| {
            text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let fleet = if is_id(&self.fleet) {
            self.fleet.clone()
        } else {
            let fleet = Fleet::open(Path::new(&self.fleet)).map_err(|error| {
                fleet_failure(error)
                    .help("give the fleet's id, 16 hexadecimal digits, or its folder")
            })?;
            fleet.id().to_owned()
        };
        let workloads = self.workload.iter().map(Name::to_string);
        Binding::new(
            &fleet,
            self.environment.as_str(),
            workloads,
            self.key.as_str(),
        )
        .map_err(|error| Failure::new(failure::USAGE, &error))
    }
}

/// For whom to seal.
#[derive(Debug, Default, clap::Args)]
pub struct ReaderArgs {
    /// Who may read it: `NAME=age1…` (may be given more than once)
    #[arg(long = "recipient", value_name = "NAME=KEY")]
    recipient: Vec<String>,
    /// A file with one `NAME age1…` a line; `#` begins a remark
    #[arg(long, value_name = "FILE")]
    recipients: Vec<PathBuf>,
}

impl ReaderArgs {
    /// Those that `files` name.
    pub fn of_files(files: Vec<PathBuf>) -> Self {
        Self {
            recipient: Vec::new(),
            recipients: files,
        }
    }

    /// Everyone named; `None` when no option names anybody. A file that names nobody is an error: what was
    /// to be sealed would otherwise be left open.
    ///
    /// # Errors
    /// [`Failure`] for a file that cannot be read or names nobody, and for a key that is not one.
    pub fn readers(&self) -> Result<Option<Vec<NamedRecipient>>, Failure> {
        if self.recipient.is_empty() && self.recipients.is_empty() {
            return Ok(None);
        }
        let mut readers = Vec::new();
        for text in &self.recipient {
            let (name, key) = text.split_once('=').unwrap_or(("", text));
            readers.push(reader(name, key, "--recipient", "`NAME=age1…`")?);
        }
        for path in &self.recipients {
            readers.extend(from_file(path)?);
        }
        Ok(Some(readers))
    }
}

fn from_file(path: &Path) -> Result<Vec<NamedRecipient>, Failure> {
    let bytes = durable::read(path, 1024 * 1024)
        .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut readers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (name, key) = line.split_once(char::is_whitespace).unwrap_or(("", line));
        let place = format!("{}:{}", path.display(), at + 1);
        let form = "`NAME age1…` with a space between them";
        readers.push(reader(name, key.trim(), &place, form)?);
    }
    if readers.is_empty() {
        let message = format!(
            "`{}` names no recipient; nothing was written",
            path.display()
        );
        return Err(Failure::say(failure::USAGE, message).help(
            "write one `NAME age1...` a line (`outhaul site list --recipients` prints those of approved \
             sites), or leave the option out to seal nothing",
        ));
    }
    Ok(readers)
}

/// One reader; `form` is how one is written at `place`.
fn reader(name: &str, key: &str, place: &str, form: &str) -> Result<NamedRecipient, Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::say(failure::USAGE, format!("{place}: {error}")).help(format!(
            "write {form}; `outhaul site list --recipients` prints the lines of approved sites"
        ))
    };
    let key: Recipient = key.parse().map_err(|error| failed(&error))?;
    let name: Name = match name {
        // Without a name the key's id stands for it in messages.
        "" => key.id().parse().map_err(|error| failed(&error))?,
        name => name.parse().map_err(|error| failed(&error))?,
    };
    Ok(NamedRecipient { name, key })
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// [`Failure`]
    pub fn run(self) -> Result<Exit, Failure> {
        match self.command {
            SecretCommand::Keygen { out, output } => keygen(&out, output),
            SecretCommand::Seal {
                place,
                readers,
                output,
            } => seal(&place, &readers, output),
        }
    }
}

fn keygen(out: &Path, output: Output) -> Result<Exit, Failure> {
    if std::fs::symlink_metadata(out).is_ok() {
        let message = format!("`{}` is there already; nothing was changed", out.display());
        return Err(Failure::say(failure::USAGE, message)
            .help("choose another file: what was sealed for a lost key stays sealed"));
    }
    super::places::file(out, "a key", |_| false)?;
    let key = Identity::generate();
    key.save(out)
        .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
    let public = key.recipient();
    if output == Output::Json {
        return print_json(&json!({"key": public.to_string(), "id": public.id(), "file": out}));
    }
    data(&public.to_string());
    say(&format!(
        "secret half of key {} written to `{}`: bring it to the sites over a trusted channel, into the \
         folder `identities` of the agent's state",
        public.id(),
        out.display()
    ));
    Ok(Exit::SUCCESS)
}

fn seal(place: &PlaceArgs, readers: &ReaderArgs, output: Output) -> Result<Exit, Failure> {
    let binding = place.binding()?;
    let readers = readers.readers()?.ok_or_else(|| {
        Failure::say(failure::USAGE, "no recipient given")
            .help("give `--recipient NAME=age1…` or `--recipients FILE`")
    })?;
    let max = marker::MAX_VALUE_BYTES as u64 + 2;
    let mut value = zeroize::Zeroizing::new(String::with_capacity(marker::MAX_VALUE_BYTES + 2));
    std::io::stdin()
        .lock()
        .take(max)
        .read_to_string(&mut value)
        .map_err(|error| {
            let message = format!("cannot read the value from standard input: {error}");
            Failure::say(failure::USAGE, message)
        })?;
    // The line end that `echo` adds is not part of a value.
    let text = value.strip_suffix('\n').unwrap_or(&value);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let keys: Vec<_> = readers.iter().map(|reader| reader.key.clone()).collect();
    let marker = marker::seal_value(text, &keys, &binding).map_err(|error| {
        let code = match &error {
            MarkerError::Seal(_) => failure::INTERNAL,
            _ => failure::USAGE,
        };
        Failure::new(code, &error)
    })?;
    let names: Vec<_> = readers
        .iter()
        .map(|reader| reader.name.to_string())
        .collect();
    if output == Output::Json {
        return print_json(&json!({
            "marker": marker, "recipients": names, "bound_to": binding.to_string(),
        }));
    }
    data(&marker);
    say(&format!(
        "only {} can read it, and only as {binding}; you cannot",
        names.join(", ")
    ));
    Ok(Exit::SUCCESS)
}

#[cfg(test)]
mod tests {
    use outhaul_seal::Identity;

    use super::*;

    #[test]
    fn a_reader_that_is_written_otherwise_is_refused_with_the_form_of_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readers");
        let key = Identity::generate().recipient();
        let in_file = |text: String| {
            std::fs::write(&path, text).unwrap();
            let readers = ReaderArgs::of_files(vec![path.clone()]).readers();
            readers.map_err(|failure| format!("{failure:?}"))
        };
        let found = in_file(format!("press-1 {key} # one\n")).unwrap().unwrap();
        assert_eq!(found[0].name.as_str(), "press-1");
        let refused = in_file(format!("press-1={key}\n")).unwrap_err();
        assert!(refused.contains("readers:1"), "{refused}");
        assert!(
            refused.contains("write `NAME age1…` with a space"),
            "{refused}"
        );
        let typed = ReaderArgs {
            recipient: vec!["press-1 age1qq".to_owned()],
            recipients: Vec::new(),
        };
        let refused = format!("{:?}", typed.readers().unwrap_err());
        assert!(refused.contains("write `NAME=age1…`"), "{refused}");
    }
}
