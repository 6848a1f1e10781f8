//! What a person should do something about, each with its own way out.
//!
//! What comes in: the memory, the state folder, and what the active bundle wrote. What goes out: one entry
//! per situation: a bundle that waits, files that differ now, too little space, a key that is gone. It
//! changes nothing and asks only reconcilers for which looking is cheap: no playbook is run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use outhaul_kit::text;
use outhaul_reconcilers::{Item, ansible, folder};

use crate::agent::Agent;
use crate::apply;
use crate::attention::{Attention, AttentionKind};
use crate::error::AgentError;
use crate::intact::{self, Look};
use crate::intake::skipped_source;
use crate::machine::{State, Work};
use crate::report::{former, refusal};
use crate::runner::soak::{UNASKED, UNWELL};
use crate::runner::{self, former_targets, held, known_again, lost_database, lost_settings};
use crate::secrets::Secrets;
use crate::state::inventory;
use crate::state::{self, generations, key};

mod beside;
mod drift;
mod waiting;

/// How many files are named.
const MAX_NAMED: usize = 10;

/// What a person should do something about now, and which assignments were looked at for that.
///
/// # Errors
/// [`AgentError`] of the store.
pub(super) fn find(agent: &Agent) -> Result<(Vec<Attention>, BTreeSet<String>), AgentError> {
    let mut looked = BTreeSet::new();
    // What a bundle would fail on comes before what lets it through.
    let mut found: Vec<Attention> = disputed(agent)?.into_iter().collect();
    let lost = lost_settings::attention(&agent.state_folder, agent.store.read(), None)?;
    // What a bundle waits for is not known without the settings.
    if agent.check_decision().is_ok() {
        found.extend(waiting::waiting(agent)?);
    }
    found.extend(held_content(agent)?);
    match without_helper(agent) {
        // Of what the default settings find here, nothing is about this site.
        _ if lost.is_some() => {}
        Some(gone) => found.push(gone),
        None => found.extend(drift::drifted_now(agent, &mut looked)?),
    }
    if let Err(error @ AgentError::Space { .. }) = agent.check_space(0) {
        let (message, help) = (error.to_string(), error.help());
        found.push(Attention::of_site(AttentionKind::Space, message, help));
    }
    found.extend(refusal::present(agent)?.map(|refusal| {
        Attention::of_site(
            AttentionKind::HubRefuses,
            refusal.sentence(),
            refusal.help(),
        )
    }));
    found.extend(former::attention(agent)?);
    let short_of_space = found.iter().any(|one| one.what == AttentionKind::Space);
    let url = agent.config.repository.url.as_deref();
    found.extend(skipped_source::present(
        agent.store.read(),
        url,
        short_of_space,
    )?);
    found.extend(not_there(&agent.config.watch));
    // What one is to do about health comes first; the rest may follow from what is named before it.
    let mut left = left(agent)?;
    let leftovers = leftovers(agent)?;
    if let Some((number, left)) = &mut left
        && let Some((_, other)) = leftovers.iter().find(|(of, _)| of == number)
    {
        // It is the same bundle, and one way out of both.
        left.help.clone_from(&other.help);
    }
    let (unwell, left): (Vec<_>, Vec<_>) = left
        .into_iter()
        .map(|(_, left)| left)
        .partition(|left| left.what == AttentionKind::Health);
    found.extend(unwell);
    found.extend(damaged(agent)?);
    if lost.is_none() {
        found.extend(former_targets::attention(agent)?);
    }
    found.extend(lost_database::present(agent.store.read())?);
    found.extend(beside::missing(agent)?);
    found.extend(beside::restoring(agent));
    found.extend(beside::numbering(agent)?);
    found.extend(leftovers.into_iter().map(|(_, leftovers)| leftovers));
    found.extend(left);
    if !Secrets::has_own_key(&agent.state_folder.identities()) {
        found.push(Attention {
            assignment: None,
            what: AttentionKind::SealKey,
            message:
                "the key that opens what is sealed for this site is missing; what is not sealed \
                      goes on"
                    .to_owned(),
            help: format!(
                "restore `{}` from a backup of the state folder, or ask the centre for a `rekey`",
                agent.state_folder.identities().display()
            ),
        });
    }
    Ok((found, looked))
}

/// Held assignments of which what they keep is not here.
fn held_content(agent: &Agent) -> Result<Vec<Attention>, AgentError> {
    let all = held::lacking(agent)?.into_iter();
    let all = all.map(|lacking| Attention {
        what: AttentionKind::HeldContent,
        message: format!(
            "{}: what runs of it cannot be compared, and no bundle is applied that leaves it alone",
            lacking.sentence()
        ),
        help: lacking.help(),
        assignment: Some(lacking.name),
    });
    Ok(all.collect())
}

/// Watched folders that are not there: nothing is taken from them.
fn not_there(watch: &[PathBuf]) -> impl Iterator<Item = Attention> {
    let gone = watch
        .iter()
        .filter(|path| matches!(path.try_exists(), Ok(false)));
    gone.map(|path| {
        let path = text::path(path);
        let message = format!("the watched folder `{path}` is not there: nothing is imported from it");
        let help = format!(
            "make the folder `{path}`, or correct `watch` in agent.toml; where a stick makes it, plug the stick in"
        );
        Attention::of_site(AttentionKind::Watch, message, help)
    })
}

/// The newest bundle, when the site left it by itself: because it could not be applied, or its health failed. What a person
/// left is no reason to do anything. With its number.
fn left(agent: &Agent) -> Result<Option<(u64, Attention)>, AgentError> {
    let db = agent.store.read();
    let active: Option<u64> = state::meta(db, key::ACTIVE)?;
    let newest = generations::all(db)?
        .into_iter()
        .max_by_key(|generation| generation.number);
    let Some(left) = newest.filter(|left| Some(left.number) > active) else {
        return Ok(None);
    };
    if !matches!(left.state, State::Reverted | State::Failed) {
        return Ok(None);
    }
    let number = left.number;
    let Some(why) = generations::remembered(db, &left.index)? else {
        let approved = generations::approval(db, &left.index)?;
        let again = approved.map(|who| Attention {
            assignment: None,
            what: AttentionKind::Approved,
            message: format!("bundle {number} was left, and {who} lets it be tried again; it is not here any more"),
            help: format!("import bundle {number} again, or a newer bundle"),
        });
        return Ok(again.map(|again| (number, again)));
    };
    if BY_A_PERSON.iter().any(|by| why.starts_with(by)) {
        return Ok(None);
    }
    let (what, when, fix) = match (why.contains(UNWELL), why.contains(UNASKED)) {
        (_, true) => (
            AttentionKind::Health,
            " while its health was to be checked",
            "fix what is named there",
        ),
        (true, false) => (
            AttentionKind::Health,
            " while its health was checked",
            "fix what was not healthy",
        ),
        (false, false) => (AttentionKind::Left, "", "fix what is named there"),
    };
    let runs = match runner::site_now(db)?.active {
        None => "no bundle runs".to_owned(),
        Some(active) if active.broken => {
            format!("going back to bundle {} failed as well", active.number)
        }
        Some(active) => format!("bundle {} is active again", active.number),
    };
    let left = Attention {
        assignment: None,
        what,
        message: format!("bundle {number} was left{when}: {why}; {runs}"),
        help: format!(
            "{fix}, then `outhaul-agent approve {number}` and import it again; or import a newer \
             bundle"
        ),
    };
    Ok(Some((number, left)))
}

/// How the reason begins of a bundle that a person left.
const BY_A_PERSON: [&str; 2] = ["rolled back by ", "given up by "];

/// Stored files of the active bundle, and of those that one can go back to, that are missing or damaged.
fn damaged(agent: &Agent) -> Result<Vec<Attention>, AgentError> {
    let site = runner::site_now(agent.store.read())?;
    let active = site.active.map(|active| active.number);
    let numbers = active.into_iter().chain(site.earlier);
    Ok(numbers
        .filter_map(|number| {
            // An index that cannot be read is reported by what needs it.
            let index = runner::index_of(agent, number).ok()?;
            let damages = intact::damages(&agent.state_folder, &index, Look::Changed);
            if damages.is_empty() {
                return None;
            }
            let whole = intact::can_be_put_back(&agent.state_folder, &index, &damages);
            Some(Attention {
                assignment: None,
                what: AttentionKind::Content,
                message: intact::sentence(number, &damages),
                help: match (active == Some(number), whole) {
                    (true, true) => "`outhaul-agent apply` puts it back from the stored copy; the next look for \
                                     drift does, too"
                        .to_owned(),
                    (true, false) => format!(
                        "the stored copy is damaged, too: import bundle {number} again, or a newer bundle; the \
                         disk may be failing"
                    ),
                    (false, true) => {
                        "no action needed: a rollback puts it back from the stored copy first".to_owned()
                    }
                    (false, false) => "the stored copy is damaged, too: `rollback` to it is refused; what runs is \
                                       not concerned, but the disk may be failing"
                        .to_owned(),
                },
            })
        })
        .collect())
}

/// Files of an earlier memory that someone changed, and that are still in the way.
fn disputed_items(agent: &Agent) -> Result<Vec<Item>, AgentError> {
    let db = agent.store.read();
    let mut disputed: Vec<Item> = state::meta(db, key::DISPUTED)?.unwrap_or_default();
    if disputed.is_empty() {
        return Ok(disputed);
    }
    let folder = apply::folder(&agent.config, &agent.state_folder);
    let ours = inventory::items(db, None)?;
    let ours: BTreeSet<&str> = ours.iter().map(|item| item.item.as_str()).collect();
    disputed.retain(|item| !ours.contains(item.item.as_str()) && folder.path_of(item).exists());
    Ok(disputed)
}

/// Files of an earlier memory that someone changed, and that no bundle was written over since.
fn disputed(agent: &Agent) -> Result<Option<Attention>, AgentError> {
    let db = agent.store.read();
    let disputed = disputed_items(agent)?.into_iter();
    let names: Vec<String> = disputed.map(|item| format!("`{}`", item.item)).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let names = text::named(&names, MAX_NAMED);
    let role = agent.site.stream.role.as_str();
    let overwrite = "have the next bundle overwrite them: `outhaul-agent enrol SITE.kit --adopt-changed`, with the kit that this site was enrolled \
                     with; or move them away, which takes them from what uses them";
    let (message, help) = match known_again::absent(&agent.state_folder, role, db)? {
        None => (
            format!(
                "files of an earlier database were changed by hand, and no bundle writes over them: {names}"
            ),
            overwrite.to_owned(),
        ),
        Some(number) => (
            format!(
                "files of an earlier database are not as the bundles on disk brought them, and no bundle with other content writes over them: \
                 {names}; bundle {number}, which is not on disk, may have written them, or someone changed them by hand"
            ),
            match (
                number < held::takes_from(agent)?,
                held::lacking(agent)?.first(),
            ) {
                (true, _) => overwrite.to_owned(),
                // It is one way out of both.
                (false, Some(lacking)) if lacking.generation == number => lacking.help(),
                (false, _) => format!(
                    "import bundle {number} first (`outhaul-agent import FOLDER`): what it wrote is known again then"
                ),
            },
        ),
    };
    Ok(Some(Attention::of_site(
        AttentionKind::ChangedFiles,
        message,
        help,
    )))
}

/// What is on this host of bundles that do not run: of a first one that failed, and of what could not be removed. With the
/// bundle's number.
fn leftovers(agent: &Agent) -> Result<Vec<(u64, Attention)>, AgentError> {
    let db = agent.store.read();
    let site = runner::site_now(db)?;
    if site.work != Work::Idle {
        return Ok(Vec::new());
    }
    let mut wanted = held::names(agent)?;
    if let Some(active) = site.active {
        // What runs is unknown without its folder; what needs that says so.
        let Ok(index) = runner::index_of(agent, active.number) else {
            return Ok(Vec::new());
        };
        wanted.extend(index.assignments.iter().map(|a| a.name.to_string()));
    }
    let mut found: BTreeMap<(String, u64), (bool, Vec<String>)> = BTreeMap::new();
    for item in inventory::surplus(db, |name| wanted.contains(name))? {
        let of = (item.assignment, item.generation);
        let (playbooks, items) = found.entry(of).or_default();
        *playbooks = item.kind == ansible::KIND;
        items.push(format!("`{}`", item.item));
    }
    let rows = generations::all(db)?;
    let lacking = held::lacking(agent)?;
    let takes_from = held::takes_from(agent)?;
    Ok(found
        .into_iter()
        .map(|((assignment, number), (playbooks, items))| {
            let items = text::named(&items, MAX_NAMED);
            // Of a playbook nothing is on this host but what it did.
            let items = match playbooks {
                true => format!("its playbooks were run here, or begun: {items}"),
                false => format!("this of it is on this host: {items}"),
            };
            let again = brought_again(number, takes_from, site.waiting.map(|waiting| waiting.number));
            // What an enrolment knows again only because a held assignment keeps it did not fail here.
            let is_known = rows
                .iter()
                .any(|row| row.number == number && row.source != known_again::SOURCE);
            let (message, help) = match is_known {
                true => (
                    format!("`{assignment}` of bundle {number} does not run, and {items}"),
                    format!(
                        "fix what made bundle {number} fail, then `outhaul-agent approve {number}` and import it \
                         again; or import a newer bundle: what it does not have is removed, the rest is replaced"
                    ),
                ),
                // An enrolment found it again.
                false => (
                    format!(
                        "`{assignment}` of bundle {number} was applied before the database of this site was lost, and goes on; {items}"
                    ),
                    match lacking.first() {
                        // Newer bundles do not get past that.
                        Some(lacking) => lacking.help(),
                        None => format!("{again}: what it does not have is removed, the rest is replaced"),
                    },
                ),
            };
            let left = Attention {
                what: AttentionKind::Leftovers,
                message,
                help,
                assignment: Some(assignment),
            };
            (number, left)
        })
        .collect())
}

/// What brings bundle `number`, which is not here, or a newer one, as the floors have it: what is older than `takes_from` is refused.
fn brought_again(number: u64, takes_from: u64, waiting: Option<u64>) -> String {
    match waiting {
        Some(waiting) => format!(
            "let bundle {waiting} through, which is here and waits, or import a newer bundle (`outhaul-agent import FOLDER`)"
        ),
        None if number < takes_from => {
            format!("import bundle {takes_from}, or a newer bundle (`outhaul-agent import FOLDER`)")
        }
        None => format!(
            "import bundle {number} again, or a newer bundle (`outhaul-agent import FOLDER`)"
        ),
    }
}

/// The apply helper, when nobody answers for it.
fn without_helper(agent: &Agent) -> Option<Attention> {
    agent.config.apply.helper.as_ref()?;
    let settings = apply::for_items_of(folder::KIND, &agent.config);
    let asked = agent
        .facilities
        .reconciler(folder::KIND, &settings, &agent.state_folder);
    let error = asked.and_then(|reconciler| reconciler.ready()).err()?;
    Some(Attention {
        assignment: None,
        what: AttentionKind::ApplyHelper,
        message: error.to_string(),
        help: error.help(),
    })
}
