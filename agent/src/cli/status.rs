//! `status`: how this site stands.

use std::path::{Path, PathBuf};

use outhaul_host::blind::Blind;
use outhaul_kit::durable::FileError;

use super::Context;
use crate::agent::Agent;
use crate::durable;
use crate::error::AgentError;
use crate::state_folder::StateFolder;
use crate::status;
use crate::status::page;

/// Whoever sits at the machine may read the page.
const MODE: u32 = 0o644;

/// Shows what runs, what waits, and what the hub has not received yet. Works while `run` works.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-agent --state /var/lib/outhaul-agent status --output json"
)]
pub struct Args {
    /// Writes it as a page for a browser to this file as well; the page is self-contained and makes no requests.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<u8, AgentError> {
    // What is wrong with the place of a page keeps nobody from knowing how the site stands.
    let place = args.page.as_ref().map(|path| {
        let refused = page::may_be_at(path, &context.state);
        refused.map(|()| path)
    });
    // A database may open and be damaged further on.
    match Agent::open(&context.state).and_then(status::beside_service) {
        Ok(status) => {
            context.print(&status.text(), &status);
            if let Some(path) = place.transpose()? {
                write(path, &page::html(&status))?;
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                super::say(&format!("a browser opens `file://{}`", path.display()));
            }
            Ok(0)
        }
        // What can be said is said; the error and its way out follow.
        Err(error) => {
            let blind = Blind::look(&StateFolder::new(&context.state), &error);
            if let Some(blind) = &blind {
                context.print(&blind.text(), blind);
            }
            match place {
                Some(Ok(path)) => say_on_page(path, &error, blind.is_some()),
                Some(Err(refused)) => refused.lines().iter().for_each(|line| super::say(line)),
                None => {}
            }
            Err(error)
        }
    }
}

/// Writes the page. An error names the page, and not the file beside it that becomes the page.
fn write(path: &Path, page: &str) -> Result<(), FileError> {
    durable::write(path, page.as_bytes(), MODE)
        .map_err(|error| durable::at("write", path)(error.source))
}

/// An earlier page would go on saying how the site stood. That it cannot be written is said beside the error.
fn say_on_page(path: &Path, error: &AgentError, is_a_site: bool) {
    let page = page::unreadable(&error.to_string(), &error.help());
    let written = is_a_site.then(|| write(path, &page));
    let path = path.display();
    match written {
        Some(Ok(())) => super::say(&format!("`{path}` states that this site cannot be read")),
        Some(Err(problem)) => super::say(&format!(
            "`{path}` is not written, and an earlier page is not true any more: {problem}"
        )),
        None => super::say(&format!(
            "`{path}` is not written; a page that is there is from before"
        )),
    }
}
