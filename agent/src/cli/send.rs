//! `send`: reports to the hub over HTTPS.

use outhaul_kit::console;

use super::Context;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::report::{self, former};

/// The exit code when the hub refused something.
const REFUSED: u8 = 1;
/// What to do about a file of saved reports that cannot be read.
const UNREAD: &str = "copy that file onto a stick for the hub, as far as it can be read, and move it out of the state folder; all other reports are sent";
const KEPT: &str = "what was not acknowledged stays in the queue, and goes with the next `outhaul-agent run --once`, or by the service where it \
                    runs; show the reason to whoever runs the hub";

/// Sends all waiting reports to the hub; only what it acknowledges with its signature leaves.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent send")]
pub struct Args {}

pub(super) fn run(context: &Context, _args: &Args) -> Result<u8, AgentError> {
    let sent = report::send(&mut Agent::open(&context.state)?)?;
    if let Some(refusal) = &sent.of_site {
        for line in report::refusal::error(refusal).lines() {
            super::say(&line);
        }
    }
    for refused in &sent.refused {
        super::say(&format!("refused: by the hub: {refused}"));
        console::note_failure(
            REFUSED,
            &format!("error: refused: by the hub: {refused}\nhelp: {KEPT}"),
        );
    }
    for unread in &sent.unread {
        super::say(&format!("not sent: {unread}"));
        console::note_failure(
            REFUSED,
            &format!("error: not sent: {unread}\nhelp: {UNREAD}"),
        );
    }
    if let Some(answer) = &sent.request {
        super::say(&format!(
            "the hub's answer to the enrolment request: {answer}"
        ));
    }
    if sent.former > 0 {
        let kept = match sent.former_acknowledged >= sent.former {
            true => String::new(),
            false => format!(
                "; the others stay in `rescued/reports`; {}",
                former::ACCEPTED
            ),
        };
        super::say(&format!(
            "{} reports of a former database of this site were sent first, {} of them acknowledged{kept}",
            sent.former, sent.former_acknowledged
        ));
    }
    context.print(
        &format!(
            "{} reports sent, {} acknowledged",
            sent.sent + sent.former,
            sent.acknowledged + sent.former_acknowledged
        ),
        &serde_json::json!({
            "sent": sent.sent, "former_sent": sent.former, "former_acknowledged": sent.former_acknowledged, "acknowledged": sent.acknowledged, "refused": sent.refused, "unread": sent.unread, "request": sent.request,
            "hub_refuses_site": sent.of_site,
        }),
    );
    Ok(if sent.refused.is_empty() && sent.unread.is_empty() {
        0
    } else {
        REFUSED
    })
}
