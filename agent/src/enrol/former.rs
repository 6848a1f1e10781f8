//! Which site a state folder was, where its database is lost: what is left there says so.
//!
//! What comes in: the state folder, and the site that a kit is for. What goes out: nothing where what is left (`site.json`, `site.key`, requests,
//! bundles) is that site's, or does not say whose it is; else an error that names both, and the files that differ. With another site's kit, what runs would be reported under a wrong name, and nobody
//! would look after it any more. It writes nothing.

use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_bundle::report::EnrolmentRequest;
use outhaul_bundle::{Digest, Index, Limits};
use outhaul_kit::text;
use outhaul_signer::{PublicKey, SigningKey};
use outhaul_site::aside;

use crate::durable;
use crate::error::AgentError;
use crate::generation;
use crate::identity;
use crate::keys;
use crate::request;
use crate::rescued;
use crate::state;
use crate::state_folder::StateFolder;

/// Refuses a kit for another site or fleet than this folder was, and pieces of another site beside what is this one's; `lost` says that something
/// else than `site.json` shows that it was one.
///
/// # Errors
/// [`AgentError::Usage`]
pub(super) fn check(
    state_folder: &StateFolder,
    kit: (&Name, &Name),
    lost: bool,
) -> Result<(), AgentError> {
    let known = identity::read(state_folder);
    let key = Key::of(state_folder);
    let (was, shown) = match &known {
        Some(known) if (&known.fleet, &known.site) == kit => {
            return key.check(state_folder, kit, known.key.as_deref());
        }
        // The key is this site's by its own request: then that one file is another's.
        Some(known) if key.is_of(kit) => {
            let path = state_folder.identity();
            let whose = format!("of site `{}` of fleet {}", known.site, known.fleet);
            let own = "while `site.key` and its request are of the site of the kit";
            return Err(differs(
                kit,
                (&[path], &whose),
                (own, "then repeat this command"),
            ));
        }
        Some(known) => (
            format!("site `{}` of fleet {}", known.site, known.fleet),
            "`site.json`".to_owned(),
        ),
        // An enrolment that was cut off was none.
        None if !lost => return key.check(state_folder, kit, None),
        None => match shown_otherwise(state_folder, kit.0, kit.1) {
            Some(found) => found,
            None => return key.check(state_folder, kit, None),
        },
    };
    let (fleet, site) = kit;
    Err(AgentError::Usage {
        message: format!(
            "the kit is for site `{site}` of fleet {fleet}, and `{}` is the state folder of {was}, as {shown} in it shows; nothing was changed",
            text::path(state_folder.root())
        ),
        help: format!(
            "enrol with a kit for that site (`outhaul site enrol SITE --again` at its centre writes one); where this machine is to be `{site}` from \
             now on, {}",
            becomes(state_folder, site)
        ),
    })
}

/// How this machine becomes `site` instead of the one that it was.
pub(super) fn becomes(state_folder: &StateFolder, site: &Name) -> String {
    let reports = rescued::folder(state_folder);
    let first = match durable::list(&reports).unwrap_or_default().is_empty() {
        true => String::new(),
        false => format!(
            "copy `{}` onto a stick for the hub of the former site, ",
            text::path(&reports)
        ),
    };
    format!(
        "{first}move the whole folder aside first (`{moves}`), and look after what the former site applied: no bundle of `{site}` removes it",
        moves = aside::whole_folder_command(state_folder.root())
    )
}

/// The same before there is a database, which must not take the place of one that is saved.
///
/// # Errors
/// As [`check`].
pub(super) fn check_without_database(
    state_folder: &StateFolder,
    (kit, enrolment): ((&Name, &Name), Digest),
    lost: bool,
) -> Result<(), AgentError> {
    check(state_folder, kit, lost)?;
    check_saved(state_folder, kit, enrolment)
}

/// The key in the folder, and the request that names it.
struct Key {
    /// Ids of `site.key`, and of the one that takes its place.
    ids: Vec<String>,
    request: Option<EnrolmentRequest>,
    /// The key that the request of each site names.
    named: Vec<(EnrolmentRequest, String)>,
}

impl Key {
    fn of(state_folder: &StateFolder) -> Self {
        let id = |pem: &str| Some(PublicKey::from_pem(pem).ok()?.id());
        let all = request::all(state_folder).into_iter();
        let named: Vec<_> = all
            .filter_map(|one| id(&one.public_key).map(|id| (one, id)))
            .collect();
        let next = SigningKey::load_plain(&state_folder.next_key()).ok();
        let next = next.map(|key| key.public().id());
        let ids: Vec<String> = keys::id_in(state_folder).into_iter().chain(next).collect();
        let of_it = named.iter().find(|(_, id)| ids.contains(id));
        Self {
            request: of_it.map(|(request, _)| request.clone()),
            ids,
            named,
        }
    }

    /// Whether its request is one of `site`.
    fn is_of(&self, site: (&Name, &Name)) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|one| (&one.fleet, &one.site) == site)
    }

    /// Refuses a key that is another site's by its request, or another one than the site's own request and `site.json` name.
    fn check(
        &self,
        state_folder: &StateFolder,
        kit: (&Name, &Name),
        known: Option<&str>,
    ) -> Result<(), AgentError> {
        let key = state_folder.key();
        let again = "and put this site's own back where it still is; where it is lost, this command makes a new one, with a new kit (`outhaul site \
                     enrol SITE --again` at the centre writes one)";
        if let Some(request) = self.request.as_ref().filter(|_| !self.is_of(kit)) {
            let file = state_folder.request(request.site.as_str());
            let whose = format!("of site `{}` of fleet {}", request.site, request.fleet);
            let shown = format!("as `{}.request` shows", request.site);
            return Err(differs(kit, (&[key, file], &whose), (&shown, again)));
        }
        let is_own = |(one, _): &&(EnrolmentRequest, String)| (&one.fleet, &one.site) == kit;
        let of_request = self.named.iter().find(is_own);
        let of_request = of_request.map(|(one, id)| (id.as_str(), format!("{}.request", one.site)));
        let of_file = known.map(|id| (id, "site.json".to_owned()));
        let Some(found) = self.ids.first() else {
            return Ok(());
        };
        // A key that took the place of an older one may be in one of the two files only.
        let mut named = of_request.into_iter().chain(of_file).peekable();
        let Some((wanted, by)) = named.peek().cloned() else {
            return Ok(());
        };
        if named.any(|(id, _)| self.ids.iter().any(|own| own == id)) {
            return Ok(());
        }
        let whose = format!("the key {found:.12}");
        let shown = format!("and `{by}` names {wanted:.12} as the key of this site");
        Err(differs(kit, (&[key], &whose), (&shown, again)))
    }
}

/// That single files in the folder are not those of the site that the kit is for, and what to do.
fn differs(
    (fleet, site): (&Name, &Name),
    (paths, whose): (&[PathBuf], &str),
    (shown, then): (&str, &str),
) -> AgentError {
    let names = paths.iter().map(|path| format!("`{}`", text::path(path)));
    let are = if paths.len() == 1 { "is" } else { "are" };
    let moves = paths.iter().map(|path| aside::command(path));
    AgentError::Usage {
        message: format!(
            "the kit is for site `{site}` of fleet {fleet}, and {} beside what is left of it {are} {whose}, {shown}; nothing was changed",
            names.collect::<Vec<_>>().join(" and "),
        ),
        help: format!(
            "move that out of the folder (`{}`), {then}",
            moves.collect::<Vec<_>>().join(" && ")
        ),
    }
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
        (Some(_), _) => None,
        (None, _) => rescued_of_other(state_folder, fleet, site),
    }
}

/// Whose database or reports are saved here, where none of them are those of `site`.
fn rescued_of_other(
    state_folder: &StateFolder,
    fleet: &Name,
    site: &Name,
) -> Option<(String, String)> {
    let all = rescued::owners(state_folder);
    if all
        .iter()
        .any(|((of, name), _)| (of, name) == (fleet, site))
    {
        return None;
    }
    let ((fleet, site), shown) = all.into_iter().next()?;
    Some((
        format!("site `{site}` of fleet {fleet}"),
        format!("`{shown}`"),
    ))
}

/// Refuses to enrol over a database of this very site that was removed and is saved whole: with a new key, the reports in it would be those of a numbering that
/// the hub may know nothing of, and it takes none of such a numbering that a former key signed.
///
/// # Errors
/// [`AgentError::Usage`], with the command that puts it back.
fn check_saved(
    state_folder: &StateFolder,
    (fleet, site): (&Name, &Name),
    enrolment: Digest,
) -> Result<(), AgentError> {
    let database = state_folder.database();
    let saved = state::saved::beside(&database).and_then(|path| {
        let of = state::saved::site_in(&path).ok()?;
        ((&of.fleet, &of.name) == (fleet, site)).then_some((path, of))
    });
    let Some((saved, of)) = saved else {
        return Ok(());
    };
    let shown = text::path(&saved);
    let then = match (state_folder.key().exists(), of.enrolment == Some(enrolment)) {
        (true, _) => "start the service: `site.key` is here, and no enrolment is needed",
        (false, false) => {
            "repeat this command: this site then has a new key, and all that it knew, with the reports that wait"
        }
        // A kit is good for one key.
        (false, true) => {
            "restore `site.key` where a copy of it is, and start the service; where it is lost, enrol with a new kit (`outhaul site enrol SITE --again` at the \
             centre writes one): this kit is bound to the key that is lost, and with a new one this site has a new key, and all that it knew, with the \
             reports that wait"
        }
    };
    Err(AgentError::Usage {
        message: format!(
            "the database of this very site, which was removed, is saved whole in `{shown}`: enrolled over it, this site would forget what it holds, and the hub \
             may accept none of the reports in it; no site was enrolled"
        ),
        help: format!(
            "put the saved one in its place (`{back}`), and {then}; where this site is to begin again without it, move it out of the folder first (`{away}`)",
            back = state::saved::put_back_command(&database, &saved),
            away = aside::command_beside(state_folder.root(), &saved)
        ),
    })
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
