//! The program `ctr`: what it is asked, and what it answers.
//!
//! What comes in: the site's settings, names of images. What goes out: the images that containerd has, whether they are unpacked, and what an
//! import said. Nothing is decided here, and no file of containerd is touched.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outhaul_kit::program::{self, Limits, PATH, ProgramFault};

use crate::settings::Settings;

/// Most of an answer, in bytes.
const MAX_ANSWER: u64 = 16 << 20;
/// By this label the kubelet leaves an image where it is; by the other, what was pinned here is known again.
const PINNED: &str = "io.cri-containerd.pinned";
const OURS: &str = "dev.outhaul.twin";
/// How long a question may take.
const QUESTION: Duration = Duration::from_secs(60);

/// `ctr` with the site's settings.
#[derive(Debug)]
pub(crate) struct Ctr<'a>(pub(crate) &'a Settings);

/// An image that containerd has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerdImage {
    pub(crate) name: String,
    pub(crate) digest: String,
    /// Whether all of its layers are unpacked.
    pub(crate) unpacked: bool,
}

impl Ctr<'_> {
    fn run(&self, arguments: &[&str], time: Duration) -> Result<Vec<u8>, ProgramFault> {
        let mut command = Command::new(&self.0.ctr);
        // Variables such as `CONTAINERD_SNAPSHOTTER` would be settings that agent.toml does not state.
        command
            .env_clear()
            .env("PATH", PATH)
            .env("LC_ALL", "C.UTF-8")
            .arg("--address")
            .arg(&self.0.address)
            .args(["--namespace", &self.0.namespace])
            .args(arguments);
        let limits = Limits {
            time,
            output: MAX_ANSWER,
            asks: false,
        };
        program::run(&mut command, b"", &limits)
    }

    /// `arguments` with the snapshotter, where one is set.
    fn with_snapshotter<'b>(&'b self, arguments: &[&'b str]) -> Vec<&'b str> {
        let mut all = arguments.to_vec();
        if let Some(name) = &self.0.snapshotter {
            all.extend(["--snapshotter", name]);
        }
        all
    }

    /// All images.
    pub(crate) fn images(&self) -> Result<Vec<ContainerdImage>, ProgramFault> {
        let question = self.with_snapshotter(&["images", "check"]);
        let answer = self.run(&question, QUESTION)?;
        Ok(known(&String::from_utf8_lossy(&answer)))
    }

    /// Imports an archive.
    pub(crate) fn import(&self, archive: &Path) -> Result<(), ProgramFault> {
        let mut question = self.with_snapshotter(&["images", "import"]);
        let archive = archive.to_string_lossy();
        question.push(&archive);
        let time = Duration::from_secs(self.0.timeout_s);
        self.run(&question, time).map(drop)
    }

    /// Gives an image another name, also one that is another image's.
    pub(crate) fn tag(&self, image: &str, name: &str) -> Result<(), ProgramFault> {
        let question = ["images", "tag", "--force", image, name];
        self.run(&question, QUESTION).map(drop)
    }

    /// Keeps the kubelet from removing an image when it needs space, or lets it again.
    pub(crate) fn pin(&self, name: &str, is_pinned: bool) -> Result<(), ProgramFault> {
        // An empty value removes a label.
        let labels = match is_pinned {
            true => [format!("{PINNED}=pinned"), format!("{OURS}=true")],
            false => [format!("{PINNED}="), format!("{OURS}=")],
        };
        let [pinned, ours] = &labels;
        self.run(&["images", "label", name, pinned, ours], QUESTION)
            .map(drop)
    }

    /// The images that were pinned here.
    pub(crate) fn pinned(&self) -> Result<Vec<String>, ProgramFault> {
        let filter = format!("labels.\"{OURS}\"==true");
        let answer = self.run(&["images", "ls", "--quiet", &filter], QUESTION)?;
        let names = String::from_utf8_lossy(&answer);
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Removes names of images, and what nothing else needs of them.
    pub(crate) fn remove(&self, names: &[&str]) -> Result<(), ProgramFault> {
        if names.is_empty() {
            return Ok(());
        }
        let question = [&["images", "rm", "--sync"][..], names].concat();
        self.run(&question, QUESTION).map(drop)
    }
}

/// What `ctr images check` printed: a line for each image, its name first, whether it is unpacked last.
fn known(answer: &str) -> Vec<ContainerdImage> {
    let lines = answer.lines().skip(1);
    lines
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Some(ContainerdImage {
                name: (*words.first()?).to_owned(),
                digest: (*words.iter().find(|word| word.starts_with("sha256:"))?).to_owned(),
                unpacked: words.last() == Some(&"true"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_containerd_1_6_prints_is_read() {
        let answer = "REF                TYPE                                       DIGEST      STATUS           SIZE                  UNPACKED \n\
                      r.example/app:2    application/vnd.oci.image.manifest.v1+json sha256:8831 incomplete (2/3) 1003.9 KiB/1004.1 KiB true     \n\
                      r.example/app:3    application/vnd.oci.image.manifest.v1+json sha256:8832 complete (3/3)   1004.1 KiB/1004.1 KiB false    \n";
        let known = known(answer);
        let short: Vec<_> = known
            .iter()
            .map(|one| (one.name.as_str(), one.digest.as_str(), one.unpacked))
            .collect();
        assert_eq!(
            short,
            [
                ("r.example/app:2", "sha256:8831", true),
                ("r.example/app:3", "sha256:8832", false)
            ]
        );
    }
}
