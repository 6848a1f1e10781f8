//! Which site a state folder was, where its database is lost: what is left there says so.
//!
//! What comes in: the state folder, and the site that a kit is for. What goes out: nothing where what is left is that site's, or does not
//! say whose it is; else an error that names both. With another site's kit, what runs would be reported under a wrong name, and nobody
//! would look after it any more. It writes nothing.

use outhaul_bundle::name::Name;
use outhaul_bundle::{Index, Limits};
use outhaul_kit::text;

use crate::durable;
use crate::error::AgentError;
use crate::generation;
use crate::identity;
use crate::request;
use crate::state_folder::StateFolder;

/// Refuses a kit for another site or fleet than this folder was; `lost` says that something else than `site.json` shows that it was one.
///
/// # Errors
/// [`AgentError::Usage`]
pub(super) fn check(
    state_folder: &StateFolder,
    (fleet, site): (&Name, &Name),
    lost: bool,
) -> Result<(), AgentError> {
    let (was, shown) = match identity::read(state_folder) {
        Some(known) if (&known.fleet, &known.site) == (fleet, site) => return Ok(()),
        Some(known) => (
            format!("site `{}` of fleet {}", known.site, known.fleet),
            "`site.json`".to_owned(),
        ),
        // An enrolment that was cut off was none.
        None if !lost => return Ok(()),
        None => match shown_otherwise(state_folder, fleet, site) {
            Some(found) => found,
            None => return Ok(()),
        },
    };
    Err(AgentError::Usage {
        message: format!(
            "the kit is for site `{site}` of fleet {fleet}, and `{}` is the state folder of {was}, as {shown} in it shows; nothing was changed",
            text::path(state_folder.root())
        ),
        help: format!(
            "enrol with a kit for that site (`outhaul site enrol SITE --again` at its centre writes one); where this machine is to be `{site}` from \
             now on, move the whole folder aside first, and look after what the former site applied: no bundle of `{site}` removes it"
        ),
    })
}

/// Which other site than `site` of `fleet` the folder was, by its bundles and requests, and which of them shows it.
fn shown_otherwise(
    state_folder: &StateFolder,
    fleet: &Name,
    site: &Name,
) -> Option<(String, String)> {
    let requests = request::all(state_folder);
    let is_named = requests
        .iter()
        .any(|one| (&one.fleet, &one.site) == (fleet, site));
    match (requests.first(), fleet_of_bundles(state_folder)) {
        (_, Some((number, found))) if found != *fleet => Some((
            format!("a site of fleet {found}"),
            format!("`generations/{number}`"),
        )),
        (Some(one), _) if !is_named => Some((
            format!("site `{}` of fleet {}", one.site, one.fleet),
            format!("`{}.request`", one.site),
        )),
        _ => None,
    }
}

/// The fleet of the newest bundle on disk that can be read, with its number.
fn fleet_of_bundles(state_folder: &StateFolder) -> Option<(u64, Name)> {
    let limits = Limits::default();
    let found = generation::on_disk(state_folder).unwrap_or_default();
    let mut numbers: Vec<u64> = found.into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    numbers.into_iter().rev().find_map(|number| {
        let path = state_folder.generation(number).join("index.json");
        let bytes = durable::read(&path, limits.max_index_bytes).ok()?;
        let index = Index::from_bytes(&bytes, &limits).ok()?;
        Some((number, index.fleet))
    })
}
