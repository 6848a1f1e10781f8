//! Which content is served now: the seam between this crate and the site's state.
//!
//! What comes in: whoever knows which generation is active, as a [`View`]. What goes out: the [`Catalog`] of
//! that generation, loaded once and again whenever another becomes active: after a rollback the older one is
//! served. A request that began with one generation ends with it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use outhaul_kit::durable;

use crate::catalog::{self, Catalog};
use crate::error::ServeError;

/// Largest file that names the active generation.
const MAX_NAME: u64 = 256;

/// Whoever knows what is active.
pub trait View: fmt::Debug + Send + Sync {
    /// The folder with the active generation's `catalog.json`; `None` while nothing is active.
    ///
    /// # Errors
    /// [`ServeError`] when it cannot be known.
    fn active(&self) -> Result<Option<PathBuf>, ServeError>;
}

/// The agent's state folder: `serve/active` names one of `generations/`.
#[derive(Debug, Clone)]
pub struct FolderView {
    active: PathBuf,
    generations: PathBuf,
}

impl FolderView {
    /// The file that names what is active, below the state folder.
    pub const ACTIVE: &str = "serve/active";

    /// The view of the state folder `state`.
    pub fn new(state: &Path) -> Self {
        Self {
            active: state.join(Self::ACTIVE),
            generations: state.join("generations"),
        }
    }
}

impl View for FolderView {
    fn active(&self) -> Result<Option<PathBuf>, ServeError> {
        let Some(bytes) = durable::read_if_present(&self.active, MAX_NAME)? else {
            return Ok(None);
        };
        let name = String::from_utf8_lossy(&bytes);
        let name = name.trim();
        if name.is_empty() {
            return Ok(None);
        }
        if !name.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ServeError::Catalog {
                path: self.active.clone(),
                problem: "it does not name a generation".to_owned(),
            });
        }
        let folder = self.generations.join(name);
        // A generation that brought nothing to serve has no catalog.
        match folder.join(catalog::FILE).exists() || !folder.exists() {
            true => Ok(Some(folder)),
            false => Ok(None),
        }
    }
}

/// The catalog of what is active.
#[derive(Debug)]
pub struct Current {
    view: Box<dyn View>,
    loaded: Mutex<Option<(PathBuf, Arc<Catalog>)>>,
}

impl Current {
    /// The catalog of whatever `view` says is active.
    pub fn new(view: Box<dyn View>) -> Self {
        Self {
            view,
            loaded: Mutex::new(None),
        }
    }

    /// The catalog of what is active now; `None` while nothing is. Reads the disk.
    ///
    /// # Errors
    /// [`ServeError`] when it cannot be known or read.
    pub fn catalog(&self) -> Result<Option<Arc<Catalog>>, ServeError> {
        let folder = self.view.active()?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(folder) = folder else {
            *loaded = None;
            return Ok(None);
        };
        if let Some((of, catalog)) = &*loaded
            && *of == folder
            && catalog.is_current()
        {
            return Ok(Some(Arc::clone(catalog)));
        }
        let catalog = Arc::new(Catalog::load(&folder)?);
        tracing::info!(folder = %folder.display(), images = catalog.images().len(),
            repositories = catalog.git().len(), "serving");
        for problem in catalog.problems() {
            tracing::error!("not served: {problem}");
        }
        *loaded = Some((folder, Arc::clone(&catalog)));
        Ok(Some(catalog))
    }
}
