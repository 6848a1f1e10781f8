//! `outhaul slip`: a freshness slip for the sites of one stream, as a file, a picture, or text.

use outhaul_kit::text::json_path;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use outhaul_bundle::name::Name;
use outhaul_signer::durable;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::slip::{NewSlip, Slip};
use serde_json::json;

use super::failure::{self, Failure};
use super::key::{FleetArgs, fleet_failure};
use super::{Exit, Output, data, print_json, say};
use outhaul_qr::{Code, QrError, png};
use outhaul_ship::stream::validity;

/// Pixels to a module of the picture: a code of 120 modules is 8 cm wide at 300 dots per inch.
const SCALE: usize = 8;

/// Write a freshness slip: keys, floors and time for a site, small enough for a QR code
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul slip --fleet fleet --passphrase-file passphrase \
                  --environment stage --cluster-type press --out press.slip --png press.png\n\n\
                  Then, on a machine of the stream:\n  \
                  outhaul-agent --state /var/lib/outhaul-agent import press.slip\n  \
                  outhaul-agent --state /var/lib/outhaul-agent import --text 'OUTHAUL:...'"
)]
pub struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
    /// The environment of the stream
    #[arg(long, value_name = "NAME")]
    environment: Name,
    /// The cluster type of the stream
    #[arg(long, value_name = "NAME")]
    cluster_type: Name,
    /// Where to write the slip
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write it as a picture of a QR code
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Also draw it as a QR code in the terminal
    #[arg(long)]
    qr: bool,
    /// Also print it as text that can be typed
    #[arg(long)]
    text: bool,
    /// Leave out root metadata up to this version: shorter, for sites that are known to have it
    #[arg(long, value_name = "VERSION", default_value_t = 0)]
    since_root: u64,
    /// The time of issue that is signed, such as 2026-11-21T12:00:00Z; without it now
    #[arg(long, value_name = "TIME")]
    issued: Option<Timestamp>,
    /// Until when the metadata that it brings is valid: not before the date of the bundle that it names, which it cannot shorten or
    /// extend; without it as long after it is issued as that bundle was given
    #[arg(long, value_name = "TIME")]
    expires: Option<Timestamp>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        if self.output == Output::Json && self.qr {
            return Err(Failure::say(
                failure::USAGE,
                "`--qr` draws for people, `--output json` does not",
            )
            .help("use `--png FILE`, or draw `text` of the JSON document"));
        }
        self.refuse_places()?;
        let secret = self.fleet.secret()?;
        let fleet = Fleet::open(&self.fleet.fleet).map_err(fleet_failure)?;
        let (environment, cluster_type) = (self.environment.as_str(), self.cluster_type.as_str());
        let role = fleet.role(environment, cluster_type);
        let Some(latest) = fleet.latest(&role).map_err(fleet_failure)? else {
            return Err(unknown_stream(&fleet, environment, cluster_type));
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let clock = Timestamp::now();
        let issued = fleet
            .signing_time(self.issued, clock)
            .map_err(fleet_failure)?;
        let expires = validity::of_slip(issued, self.expires, &latest)
            .map_err(|error| Failure::of(&error))?;
        let made = fleet
            .slip(&role, self.since_root, issued, expires, &secret)
            .map_err(fleet_failure)?;
        let picture = match &self.png {
            Some(path) => {
                let code = Code::for_paper(&made.slip.to_line()).map_err(|e| too_long(&e))?;
                Some((path, code.to_png(SCALE)))
            }
            None => None,
        };
        let bytes = made.slip.to_bytes();
        write(&self.out, &bytes)?;
        if let Some((path, png)) = picture {
            write(path, &png)?;
        }
        fleet.commit(&made.metadata).map_err(fleet_failure)?;
        self.print(&fleet, &made, bytes.len())
    }

    /// Refuses to write over what is neither a slip nor a picture of one, and where Outhaul writes nothing.
    fn refuse_places(&self) -> Result<(), Failure> {
        let slip = |there: &[u8]| Slip::from_bytes(there).is_ok();
        super::places::file(&self.out, "a slip", slip)?;
        let Some(png) = &self.png else {
            return Ok(());
        };
        super::places::file(png, "a picture of a QR code", png::is_of_a_code)?;
        if *png == self.out {
            let text = "`--out` and `--png` name one file";
            return Err(Failure::say(failure::USAGE, text).help("name two"));
        }
        Ok(())
    }

    fn print(&self, fleet: &Fleet, made: &NewSlip, bytes: usize) -> Result<Exit, Failure> {
        let stream = format!("{}/{}", self.environment, self.cluster_type);
        if self.output == Output::Json {
            return print_json(&json!({
                "file": json_path(&self.out), "png": self.png.as_deref().map(json_path), "bytes": bytes, "fleet": fleet.id(),
                "stream": {"environment": self.environment, "cluster_type": self.cluster_type},
                "number": made.number, "versions": made.versions, "issued": made.signed_at,
                "expires": made.expires, "text": made.slip.to_line(),
            }));
        }
        say(&format!(
            "slip for {stream}: issued {}, expires {}, newest bundle {}; {bytes} bytes in `{}`",
            made.signed_at,
            made.expires,
            made.number,
            self.out.display()
        ));
        say(
            "sticks of this stream that are older than it are refused where it was imported, unless \
             they contain that bundle",
        );
        if self.text {
            for line in made.slip.to_text().lines() {
                data(line);
            }
        }
        if self.qr {
            let code = Code::for_screen(&made.slip.to_line()).map_err(|e| too_long(&e))?;
            for line in code.to_lines(std::io::stdout().is_terminal()) {
                super::picture(&line);
            }
        }
        Ok(Exit::SUCCESS)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    durable::write(path, bytes, durable::PUBLIC_MODE).map_err(|error| {
        Failure::new(failure::ENVIRONMENT, &error).help(
            "the slip was not published; make room or choose another folder, and run it again",
        )
    })
}

fn unknown_stream(fleet: &Fleet, environment: &str, cluster_type: &str) -> Failure {
    let known: Vec<_> = fleet
        .streams()
        .values()
        .map(|names| format!("`{}/{}`", names.environment, names.cluster_type))
        .collect();
    let known = if known.is_empty() {
        "none yet".to_owned()
    } else {
        known.join(", ")
    };
    Failure::say(
        failure::USAGE,
        format!("stream `{environment}/{cluster_type}` has no bundle yet, so no slip can be made"),
    )
    .help(format!(
        "streams with bundles: {known}; nothing was written"
    ))
}

fn too_long(error: &QrError) -> Failure {
    Failure::new(failure::USAGE, error).help(
        "carry the slip as a file, or leave out root metadata that the sites have (`--since-root`)",
    )
}
