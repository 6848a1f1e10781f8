//! A real helm-controller of Flux for tests: what installs the charts that `HelmRelease`s name.
//!
//! What comes in: a server with a Flux whose source-controller is real, and `OUTHAUL_HELM_CONTROLLER`: a folder with the program
//! and, in `crds`, the definition of `HelmRelease`. No package registry has that program: it is built by hand from its public
//! repository, and a test that needs it is skipped where it is not there, in CI too. What goes out: a controller that ends with
//! its value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::flux::Flux;
use crate::kubernetes::{ADMIN, ApiServer};

/// A helm-controller.
#[derive(Debug)]
pub struct HelmController {
    program: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
    child: Option<Child>,
}

impl Drop for HelmController {
    fn drop(&mut self) {
        self.stop();
    }
}

impl HelmController {
    /// The folder with the program; `None` where it is missing, and the calling test is skipped.
    #[track_caller]
    pub fn available_or_skip() -> Option<PathBuf> {
        let programs = std::env::var_os("OUTHAUL_HELM_CONTROLLER").map(PathBuf::from);
        let found = programs.filter(|folder| folder.join("helm-controller").is_file());
        if found.is_none() {
            crate::skipped_unless_by_hand(
                "OUTHAUL_HELM_CONTROLLER does not name a folder with helm-controller and `crds`; no package registry has \
                 it: build one from https://github.com/fluxcd/helm-controller",
            );
        }
        found
    }

    /// Defines `HelmRelease` on `server`, and starts the program with its files in `folder`.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(programs: &Path, server: &ApiServer, folder: &Path) -> Result<Self> {
        Flux::define(programs, server)?;
        fs::create_dir_all(folder)?;
        let mut this = Self {
            program: programs.join("helm-controller"),
            kubeconfig: server.kubeconfig(ADMIN),
            folder: folder.to_owned(),
            child: None,
        };
        this.go_on()?;
        Ok(this)
    }

    /// Starts it again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn go_on(&mut self) -> Result<()> {
        let child = Command::new(&self.program)
            .args([
                "--watch-all-namespaces=true",
                "--enable-leader-election=false",
            ])
            .args(["--events-addr=", "--metrics-addr=0", "--health-addr=0"])
            .arg("--requeue-dependency=1s")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUNTIME_NAMESPACE", "flux-system")
            .env("TMPDIR", &self.folder)
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("helm-controller.log"))?)
            .spawn()
            .context("cannot start helm-controller")?;
        self.child = Some(child);
        Ok(())
    }

    /// Ends it at once.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
