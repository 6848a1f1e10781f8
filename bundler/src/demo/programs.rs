//! Where the demo finds the other two programs.
//!
//! What comes in: where this program runs from. What goes out: the paths of `outhaul`, `outhaul-agent`
//! and `outhaul-hub`, which lie beside each other. It builds nothing.

use std::path::{Path, PathBuf};

use super::DemoError;

/// The three programs of the loop.
#[derive(Debug, Clone)]
pub struct Programs {
    /// This program.
    pub outhaul: PathBuf,
    /// The site's.
    pub agent: PathBuf,
    /// The hub's.
    pub hub: PathBuf,
}

/// Finds the programs.
///
/// # Errors
/// [`DemoError::Programs`] when they are not there.
pub fn locate() -> Result<Programs, DemoError> {
    let outhaul = std::env::current_exe().map_err(|error| DemoError::Programs {
        problem: error.to_string(),
    })?;
    let folder = outhaul.parent().unwrap_or(Path::new(".")).to_path_buf();
    let beside = |name: &str| {
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(DemoError::Programs {
            problem: format!(
                "there is no `{name}` beside this program in `{}`\nhelp: install it there; in a source \
                 checkout, `cargo xtask demo` builds all of them and runs the demo",
                folder.display()
            ),
        })
    };
    Ok(Programs {
        agent: beside("outhaul-agent")?,
        hub: beside("outhaul-hub")?,
        outhaul,
    })
}
