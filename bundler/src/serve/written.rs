//! Whether what a round wrote is still there as it was written.
//!
//! What comes in: the environment's configuration, what was read, and the newest commit of its platform branch. What goes out: one
//! digest of how bundles, published files and branch lie there now, equal as long as nobody changed one. It reads sizes, times,
//! indexes and a commit's id, so that each round can ask; what differs is found and written by the step that writes it.

use std::fmt::Write as _;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Content;
use outhaul_control::ControlPlane;
use outhaul_kit::media::Media;
use outhaul_signer::fleet::Fleet;

use outhaul_copy::copies::{self, CopyError, KeptBundle};
use outhaul_ship::deliver::published;
use outhaul_ship::stream::{self, elsewhere};

use super::config::{BundleConfig, EnvironmentConfig};

/// The digest; `None` where a bundle that was signed is gone, so that it must be made again. `tip` is the newest commit of the
/// platform branch. Bundles of a cluster type that left the environment are not looked for: nothing makes them again.
pub(super) fn now(
    one: &EnvironmentConfig,
    plane: &ControlPlane,
    tip: Option<&str>,
) -> Option<Digest> {
    let mut text = format!("{tip:?}\n");
    if let Some(config) = &one.bundle {
        text.push_str(&bundles(&one.name, config, plane)?);
    }
    Some(Digest::of(text.as_bytes()))
}

fn bundles(environment: &str, config: &BundleConfig, plane: &ControlPlane) -> Option<String> {
    // What cannot be opened is reported when it is used.
    let fleet = Fleet::open(&config.fleet).ok()?;
    let streams = fleet.streams().values();
    let types = streams
        .filter(|stream| stream.environment == environment)
        .map(|stream| stream.cluster_type.clone());
    let is_wanted = |name: &String| plane.cluster_types.contains_key(name);
    let cluster_types: Vec<String> = types.filter(is_wanted).collect();
    if cluster_types.is_empty() {
        return Some(String::new());
    }
    let kept = match copies::kept_or_lost(&fleet, Some(environment), &cluster_types) {
        // No bundle was made of it yet.
        Err(CopyError::Nothing { .. }) => return Some(String::new()),
        kept => kept.ok().filter(|kept| kept.lost.is_empty())?,
    };
    let publish = config.publish.as_deref();
    standing(&fleet, &kept.bundles, &config.out, publish)
}

/// How the files of `bundles` lie in the folder `out`, and unpacked in `publish`, as text: their sizes and times, what the published
/// timestamp is, and whether keys were changed since. What is missing is a part of it; `None` when the fleet's own copies cannot be read.
fn standing(
    fleet: &Fleet,
    bundles: &[KeptBundle],
    out: &Path,
    publish: Option<&Path>,
) -> Option<String> {
    let mut text = String::new();
    let mut mark = |folder: &Option<Media>, path: &Path| {
        let marks = folder.as_ref().and_then(|folder| folder.marks(path));
        let _ = writeln!(text, "{} {marks:?}", path.display());
    };
    let written = Media::open(out).ok();
    let web = publish.and_then(|folder| Media::open(folder).ok());
    let mut leads = Vec::new();
    for one in bundles {
        mark(&written, Path::new(&one.file_name()));
        leads.push(format!("{:?}", stream::outdated(fleet, one.role()).ok()?));
        let Some(folder) = publish else { continue };
        let latest = fleet.latest(one.role()).ok()??;
        let index = Content {
            digest: Digest::from_bytes(latest.index),
            size: latest.length,
        };
        let files = published::files_of(one.path(), &index, one.role()).ok()?;
        for path in &files {
            mark(&web, path);
        }
        let is_signed = |bytes: &[u8]| fleet.has_signed_timestamp(bytes).unwrap_or(true);
        let there = published::leads_to(one.path(), folder, &is_signed).ok()?;
        leads.push(format!("{there:?}"));
    }
    if let Some(folder) = publish {
        leads.push(format!("{:?}", elsewhere::at(fleet, folder).ok()?));
    }
    let _ = writeln!(text, "{leads:?}");
    Some(text)
}
