//! `enrol`: makes this machine a site, with a kit from the centre.

use std::path::PathBuf;

use outhaul_kit::media;

use super::Context;
use crate::enrol;
use crate::error::AgentError;
use crate::home::Home;

/// Makes this machine a site of a fleet, with the kit that the centre wrote for it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent enrol /media/stick/drone-7.kit"
)]
pub struct Args {
    /// The kit.
    kit: PathBuf,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    let kit = media::read_file(&args.kit, outhaul_signer::enrol::MAX_KIT_BYTES as u64)?;
    let enrolled = enrol::enrol(&Home::new(&context.state), &kit)?;
    let site = &enrolled.site;
    let request = enrolled.request.display();
    let again = if enrolled.again { " (as before)" } else { "" };
    let text = format!(
        "site {} of fleet {} is enrolled{again} for {}/{}\nfingerprint: {}\nrequest: {request}\nseal for it with: {} {}",
        site.name,
        site.fleet,
        site.stream.environment,
        site.stream.cluster_type,
        enrolled.fingerprint,
        site.name,
        enrolled.seal_key
    );
    super::say(
        "next: bring the request to the centre (`outhaul-agent export` puts it on a stick), and tell \
         whoever approves it the fingerprint by another way, such as by telephone",
    );
    context.print(
        &text,
        &serde_json::json!({
            "site": site.name, "fleet": site.fleet, "stream": site.stream,
            "request": enrolled.request, "seal_key": enrolled.seal_key,
            "fingerprint": enrolled.fingerprint, "again": enrolled.again,
        }),
    );
    Ok(0)
}
