//! `outhaul-signer verify-metadata`: a site's verdict, without a site.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_signer::TimePolicy;
use outhaul_signer::media::{self, Media};
use outhaul_signer::trust::{self, MetadataSource, SourceError, TrustedMetadata};
use serde_json::json;

use super::{CommandOutcome, Common, Result};

/// Check metadata as a site of a stream would.
///
/// Example: `outhaul-signer verify-metadata ./fleet/metadata --role s-0123456789abcdef`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder with the metadata files
    folder: PathBuf,
    /// The stream's role
    #[arg(long)]
    role: String,
    /// Root metadata to start from [default: `1.root.json` of the folder]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
}

struct Folder(Media);

impl MetadataSource for Folder {
    fn fetch(
        &self,
        name: &str,
        max_bytes: u64,
    ) -> std::result::Result<Option<Vec<u8>>, SourceError> {
        self.0
            .read(Path::new(name), max_bytes)
            .map_err(|error| match error.source.kind() {
                std::io::ErrorKind::FileTooLarge => SourceError::TooLarge {
                    name: name.to_owned(),
                    max_bytes,
                },
                _ => SourceError::Unreadable {
                    name: name.to_owned(),
                    reason: error.to_string(),
                },
            })
    }
}

impl Args {
    pub fn run(self, common: &Common) -> Result {
        let root = self.root.unwrap_or_else(|| self.folder.join("1.root.json"));
        let trusted =
            TrustedMetadata::enrol(&media::read_file(&root, trust::walk::MAX_ROOT_BYTES)?)?;
        let wall = common.now();
        let now = TimePolicy {
            lower_bound: wall,
            wall,
            wall_trusted: true,
        };
        let source = Folder(Media::open(&self.folder)?);
        let accepted = trust::verify(&trusted, &BTreeMap::new(), &source, &self.role, now)?;
        let index = hex::encode(accepted.index_sha256);
        let verdict = if accepted.expired {
            "expired: no new install"
        } else {
            "valid"
        };
        let text = format!(
            "{verdict}\nnumber   {}\nissued   {}\nexpires  {}\nindex    {index}",
            accepted.number, accepted.issued, accepted.expires
        );
        common.print(
            &text,
            &json!({
                "number": accepted.number,
                "issued": accepted.issued,
                "signed_at": accepted.signed_at,
                "expires": accepted.expires,
                "expired": accepted.expired,
                "index_sha256": index,
                "index_length": accepted.index_length,
                "versions": accepted.versions,
            }),
        );
        Ok(if accepted.expired {
            CommandOutcome::Waiting
        } else {
            CommandOutcome::Done
        })
    }
}
