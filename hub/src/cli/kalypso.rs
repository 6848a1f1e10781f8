//! `outhaul-hub import kalypso`: what an observability hub of Kalypso knows, as YAML, comes into this one.

use std::path::PathBuf;

use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::time;
use outhaul_kalypso as kalypso;

/// Take in Kalypso's `DeploymentDescriptor` and `Reconciler` objects, from YAML
///
/// From files, and from the YAML files of folders and those below them. They are shown beside this fleet's own in Kalypso's tables (on
/// PostgreSQL) and counted by `POST /deployment_state`; no gate counts them, because they are not signed. What is wrong is named,
/// and then nothing is imported.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubectl get deploymentdescriptors,reconcilers -A -o yaml > kalypso.yaml\n  \
                        outhaul-hub import kalypso kalypso.yaml --state hub"
)]
pub(crate) struct Args {
    /// Files or folders with YAML
    #[arg(required = true, value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    /// The commit that carries the descriptors which have no `status.gitOpsCommitId`
    #[arg(long, value_name = "COMMIT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    commit: Option<String>,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    let found = kalypso::read(&args.paths, args.commit.as_deref())?;
    let now_ms = time::now_ms();
    hub.store.write(|session| {
        for one in &found.descriptors {
            session.add_descriptor(one, now_ms)?;
        }
        for one in &found.reconcilers {
            session.add_reconciler(one, now_ms)?;
        }
        Ok::<_, HubError>(())
    })?;
    let (descriptors, reconcilers) = (
        found.descriptors.len() as u64,
        found.reconcilers.len() as u64,
    );
    let others: Vec<String> = found
        .ignored
        .iter()
        .map(|(kind, count)| format!("{count} of kind `{kind}`"))
        .collect();
    match common.output {
        Output::Json => print::json(&json!({
            "descriptors": descriptors, "reconcilers": reconcilers, "ignored": found.ignored,
        })),
        Output::Text => print::data(&format!(
            "{} and {} of Kalypso are in",
            print::count(descriptors, "descriptor"),
            print::count(reconcilers, "reconciler")
        )),
    }
    if !others.is_empty() {
        print::talk(&format!(
            "skipped, neither a DeploymentDescriptor nor a Reconciler: {}",
            others.join(", ")
        ));
    }
    if descriptors + reconcilers == 0 {
        print::talk(
            "no object to import: there is no DeploymentDescriptor and no Reconciler of `hub.kalypso.io/v1alpha1`",
        );
        return Ok(1);
    }
    Ok(0)
}
