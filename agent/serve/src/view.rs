//! Which content is served now: the seam between this crate and the site's state.
//!
//! What comes in: whoever knows which generation is active, as a [`View`]. What goes out: the [`Catalog`] of
//! that generation, loaded once and again whenever another becomes active: after a rollback the older one is
//! served. A request that began with one generation ends with it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use outhaul_kit::durable;

use crate::catalog::Catalog;
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

/// A folder whose file `active` names one of its subfolders.
#[derive(Debug, Clone)]
pub struct FolderView {
    root: PathBuf,
}

impl FolderView {
    /// The file that names what is active.
    pub const ACTIVE: &str = "active";

    /// The view of the folder `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }
}

impl View for FolderView {
    fn active(&self) -> Result<Option<PathBuf>, ServeError> {
        let path = self.root.join(Self::ACTIVE);
        let Some(bytes) = durable::read_if_present(&path, MAX_NAME)? else {
            return Ok(None);
        };
        let name = String::from_utf8_lossy(&bytes);
        let name = name.trim();
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() {
            return Ok(None);
        }
        if name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(ServeError::Catalog {
                path,
                problem: "it does not name a folder beside it".to_owned(),
            });
        }
        Ok(Some(self.root.join(name)))
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
