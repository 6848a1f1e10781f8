//! What one round does for one environment: load, and when that changed render, bundle and publish.
//!
//! What comes in: the environment's configuration and what was done for it last. What goes out: what is
//! done now, `None` when that is the same, or a [`RoundProblem`]. Every step finds for itself what it did
//! already, so that a round that was cut off is made again without doing anything twice.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_signer::fleet::{Fleet, FleetError};
use outhaul_signer::key::Secret;

use super::config::{BundleConfig, EnvironmentConfig, GitConfig};
use super::state::{EnvironmentMemory, LastRun};
use super::written;
use crate::notes;
use crate::publication::{self, Publication, PullRequestOptions};
use crate::registries::{Registries, UserClient};
use outhaul_control::overriding::Override;
use outhaul_control::{ControlPlane, Diagnostics};
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::format_count::assignments;
use outhaul_load::LoadRequest;
use outhaul_load::pipeline::{self, Loaded, Platform};
use outhaul_plane::compose::Mode;
use outhaul_plane::render::{MemoryCache, RenderCache};
use outhaul_promote::PromoteError;
use outhaul_promote::record::Passage;
use outhaul_promote::required::{self, ShipRefusal};
use outhaul_record::isolation;
use outhaul_remote::forge;
use outhaul_ship::branch::TargetChoice;
use outhaul_ship::branch::proposal::ProposalAction as Proposed;
use outhaul_ship::deliver::published;
use outhaul_ship::outcome;
use outhaul_ship::shown::Shown;
use outhaul_ship::stream::{self, BundleRequest, ProduceError, Production};
use outhaul_sites::Sites;

/// Why an environment, or the chain, could not be done.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RoundProblem {
    /// For people: what, where, and what to do next.
    pub text: String,
    /// Whether it may go by itself: a network, a disk, a server.
    pub unreachable: bool,
}

impl From<Shown> for RoundProblem {
    fn from(shown: Shown) -> Self {
        Self {
            text: shown.text(),
            unreachable: shown.class == FailureClass::Environment,
        }
    }
}

impl RoundProblem {
    fn findings(findings: &Diagnostics) -> Self {
        Shown::findings(findings).into()
    }

    /// An error with its causes, and below it what to do next.
    pub(super) fn of(error: &(impl Classified + 'static)) -> Self {
        Shown::of(error).into()
    }

    fn sentence(text: String) -> Self {
        Self {
            text,
            unreachable: false,
        }
    }
}

/// Why the chain cannot be followed.
pub(super) fn chain_problem(error: &PromoteError) -> RoundProblem {
    match error {
        PromoteError::Findings(findings) => RoundProblem::findings(findings),
        _ => RoundProblem::of(error),
    }
}

/// Brings `one` to what its sources say now. What is done is reported to `lines` as soon as it is.
pub(super) fn bring(
    one: &EnvironmentConfig,
    request: &LoadRequest,
    known: &EnvironmentMemory,
    memory: &mut MemoryCache,
    now: Timestamp,
    lines: &mut Vec<String>,
) -> Result<Option<LastRun>, RoundProblem> {
    let loaded = pipeline::load(request, None).map_err(|all| RoundProblem::findings(&all))?;
    let snapshot = loaded.snapshot.digest;
    let key = key(one, &loaded);
    if let Some(done) = known.done.as_ref().filter(|done| done.key == key)
        && done.written.is_some()
    {
        let plane = &loaded.control_plane;
        let tip = match &one.git {
            Some(config) => tip(config, request, plane)?,
            None => None,
        };
        if done.written == written::now(one, plane, tip.as_deref()) {
            return Ok(None);
        }
    }
    // What was read is what is rendered: no scheduler is asked twice.
    let platform = pipeline::render(
        loaded.pinned(),
        Mode::default(),
        RenderCache::Memory(memory),
    );
    let overridden = match one.bundle.is_some() || one.git.is_some() {
        true => gate(one, request, &platform)?,
        false => None,
    };
    let findings = &platform.control_plane.findings;
    if !findings.is_empty() {
        lines.push(findings.render(false).trim_end().to_owned());
    }
    lines.push(format!(
        "snapshot {}: {} rendered",
        snapshot.short(),
        assignments(platform.rendered)
    ));
    let mut broken = BTreeSet::new();
    if let Some(given) = &overridden {
        let commit = &platform.rendering.snapshot.base.commit;
        lines.push(format!("at {commit:.12}, {given}"));
    }
    if let Some(config) = &one.bundle {
        bundle(config, request, &platform, now, lines, &mut broken)?;
    }
    let tip = match &one.git {
        Some(config) => {
            let publication = Publication {
                overridden: overridden.as_ref(),
                ..publication(config)?
            };
            git(config, request, &platform, publication, lines, &mut broken)?
        }
        None => None,
    };
    if !platform.is_whole() {
        let findings = isolation::one_line_each(&platform.broken_of([]));
        broken.extend(findings.lines().map(str::to_owned));
    }
    Ok(Some(LastRun {
        key,
        snapshot,
        broken: broken.into_iter().collect(),
        written: written::now(one, &platform.control_plane, tip.as_deref()),
    }))
}

/// Nothing of an environment is shipped from a base commit that no gate let in. What a person overrode when making a
/// bundle counts here, too, and is returned: what is published says who it was.
fn gate(
    one: &EnvironmentConfig,
    request: &LoadRequest,
    platform: &Platform,
) -> Result<Option<Override>, RoundProblem> {
    let (plane, snapshot) = (&platform.control_plane, &platform.rendering.snapshot);
    let fleet = one.bundle.as_ref().map(|bundle| bundle.fleet.as_path());
    match required::passage(request, plane, snapshot, fleet, None) {
        Ok(Passage::Override(given)) => Ok(Some(given)),
        Ok(_) => Ok(None),
        Err(ShipRefusal::Promote(error)) => Err(chain_problem(&error)),
        Err(refusal) => Err(RoundProblem::of(&refusal)),
    }
}

/// A digest of everything that the environment depends on.
fn key(one: &EnvironmentConfig, loaded: &Loaded) -> Digest {
    let snapshot = loaded.snapshot.digest;
    let mut text = format!("{snapshot}\n{one:?}\n{}\n", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "{:?}", loaded.answers);
    if let Some(bundle) = &one.bundle {
        // A record that cannot be read is reported when it is used.
        let fleet = Fleet::open(&bundle.fleet).ok();
        // Orders for sites leave with the next bundle, and a revocation should not wait for a change.
        let orders = fleet.as_ref().map(|fleet| {
            let roles = fleet.roles_of(&one.name);
            Sites::of(fleet).orders_of(roles)
        });
        let _ = writeln!(text, "{orders:?}");
        // A site whose cluster type left the environment is reported until it follows another stream.
        let sites = fleet.as_ref().and_then(|fleet| Sites::of(fleet).all().ok());
        for site in sites.iter().flatten() {
            let _ = writeln!(text, "{} {}", site.site, site.stream_name());
        }
        // An answer to a request for a signature ships what waits for it.
        let _ = writeln!(text, "{:?}", fleet.as_ref().map(Fleet::answers));
        let _ = writeln!(text, "{:?}", outhaul_load::payload_sources(loaded));
    }
    Digest::of(text.as_bytes())
}

fn bundle(
    config: &BundleConfig,
    request: &LoadRequest,
    platform: &Platform,
    now: Timestamp,
    lines: &mut Vec<String>,
    broken: &mut BTreeSet<String>,
) -> Result<(), RoundProblem> {
    for folder in [Some(&config.out), config.publish.as_ref()]
        .into_iter()
        .flatten()
    {
        outhaul_load::refuse_output(request, folder).map_err(|error| RoundProblem::of(&error))?;
    }
    let new_folder = published_folder(config)?;
    let secret = secret(config).map_err(|error| RoundProblem::of(&FleetError::Key(error)))?;
    let fleet = Fleet::open(&config.fleet).map_err(|error| RoundProblem::of(&error))?;
    fleet
        .refuse_implausible_clock(now)
        .map_err(|error| RoundProblem::of(&error))?;
    let (mirrors, authorities) = (&config.registry_mirrors, &config.registry_cas);
    let hosts = mirrors.clone().and(authorities.clone());
    let user = UserClient::open(hosts).map_err(|error| RoundProblem::of(&error))?;
    let images = Registries::of(user, &platform.cache).allowing(&platform.sources);
    let request = BundleRequest {
        cluster_types: &[],
        out: &config.out,
        publish: config.publish.as_deref(),
        recipients: BTreeSet::new(),
        readers: None,
        renew: false,
        strict: false,
        issued: now,
        expires_days: config.expires_days,
        images: Some(&images),
        update: false,
        scanners: &config.scanners,
        agent: None,
    };
    match stream::produce(platform, &fleet, &secret, &request) {
        Ok(made) => {
            note(&made, platform, lines, broken);
            lines.extend(notes::after_bundles(
                platform,
                &images,
                &config.scanners,
                new_folder,
                &made,
            ));
            Ok(())
        }
        Err(error) => {
            if let ProduceError::After { production, .. } = &error {
                note(production, platform, lines, broken);
            }
            Err(Shown::from(&error).into())
        }
    }
}

/// The folder for published bundles, where it is to be made; a path that may be mistyped is refused.
fn published_folder(config: &BundleConfig) -> Result<Option<&Path>, RoundProblem> {
    let Some(folder) = config.publish.as_deref() else {
        return Ok(None);
    };
    match published::is_new(folder) {
        Ok(is_new) => Ok(is_new.then_some(folder)),
        Err(error) => Err(RoundProblem::sentence(format!(
            "`publish = \"{}\"`: {error}\nhelp: correct the path in the configuration, mount the disk, or make the folder first (`mkdir -p`)",
            folder.display()
        ))),
    }
}

/// Notes what became of the streams.
fn note(
    made: &Production,
    platform: &Platform,
    lines: &mut Vec<String>,
    broken: &mut BTreeSet<String>,
) {
    let summary = made.summary(|| outhaul_check::beside_bundles(platform, &[]));
    lines.extend(summary.lines);
    broken.extend(summary.problems);
    broken.extend(outcome::problems(platform, &made.isolation));
}

/// The secret that opens the fleet's keys. Read each time, so that it can be changed while this runs.
pub(super) fn secret(config: &BundleConfig) -> Result<Secret, outhaul_signer::key::KeyError> {
    let file = config.passphrase_file.as_deref();
    Secret::from_sources(file, &[Secret::VARIABLE], Secret::CREDENTIAL)
}

/// Where and how an environment is published.
fn publication(config: &GitConfig) -> Result<Publication<'_>, RoundProblem> {
    Ok(Publication {
        target: TargetChoice {
            to: config.to.as_deref(),
            gitops_repo: config.gitops_repo.as_deref(),
            branch: config.branch.as_deref(),
            path: config.path.as_deref(),
        },
        adopt: false,
        overridden: None,
        forge: config.forge,
        token: forge::token(config.token_file.as_deref())
            .map_err(|error| RoundProblem::of(&error))?,
        pull_request: config.pull_request.then_some(PullRequestOptions {
            api: config.api.as_deref(),
            project: config.project.as_deref(),
            authority: config.forge_ca.as_deref(),
        }),
    })
}

/// The newest commit of the branch that an environment is published to.
fn tip(
    config: &GitConfig,
    request: &LoadRequest,
    plane: &ControlPlane,
) -> Result<Option<String>, RoundProblem> {
    let found = publication::tip(plane, request, &publication(config)?);
    found.map_err(|error| Shown::from(&error).into())
}

/// Publishes it; returns the newest commit of the branch that it goes to.
fn git(
    config: &GitConfig,
    request: &LoadRequest,
    platform: &Platform,
    publication: Publication<'_>,
    lines: &mut Vec<String>,
    broken: &mut BTreeSet<String>,
) -> Result<Option<String>, RoundProblem> {
    let done = publication::publish(platform, request, publication)
        .map_err(|error| Shown::from(&error))?;
    let branch = &done.target.branch;
    if let Some(proposed) = &done.proposed {
        let what = match proposed.done {
            Proposed::Closed => "closed",
            Proposed::Opened => "opened",
            Proposed::Updated => "updated",
            Proposed::Nothing => "as it was",
        };
        if let Some(request) = &proposed.pull_request {
            let (number, url) = (request.number, &request.url);
            lines.push(format!(
                "branch `{branch}`: pull request #{number} {what} ({url})"
            ));
        }
    } else if let Some(commit) = done.commit.as_ref().filter(|_| done.changed) {
        lines.push(format!(
            "branch `{branch}` of {}: {} added, {} changed, {} removed, commit {commit}",
            done.target.url,
            done.plan.added.len(),
            done.plan.changed.len(),
            done.plan.removed.len()
        ));
    }
    lines.extend(done.plan.made_anew(branch));
    for path in &done.plan.by_hand {
        lines.push(format!(
            "warning: `{path}` was edited directly in branch `{branch}`; overwritten with the rendered version"
        ));
    }
    broken.extend(outcome::problems(platform, &done.plan.isolation));
    match done.proposed {
        Some(_) => tip(config, request, &platform.control_plane),
        None => Ok(done.commit),
    }
}
