//! What a folder is already, by what lies in it: whoever writes something else there mixes it with what others keep and count on.
//!
//! What comes in: a path. What goes out: the nearest folder at it or above it that is a site's, a fleet's, a hub's, a control plane or a
//! repository of git. It looks at which names are there and what is mounted, opens none of them and changes nothing; what is refused is its
//! caller's business.

use std::path::{Path, PathBuf};

use crate::mounts;

/// What a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The state folder of a site.
    Site,
    /// The folder of a fleet's keys.
    Fleet,
    /// The state folder of a hub.
    Hub,
    /// A control plane.
    ControlPlane,
    /// A bare repository of git, or what `.git` holds.
    Repository,
}

impl Owner {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Site,
        Self::Fleet,
        Self::Hub,
        Self::ControlPlane,
        Self::Repository,
    ];

    /// The same with its article, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Site => "the state folder of a site",
            Self::Fleet => "the folder of a fleet's keys",
            Self::Hub => "the state folder of a hub",
            Self::ControlPlane => "the control plane",
            Self::Repository => "the repository",
        }
    }

    /// Whether this is what `folder` itself is.
    fn is(self, folder: &Path) -> bool {
        let is_file = |name: &str| folder.join(name).is_file();
        let is_folder = |name: &str| folder.join(name).is_dir();
        match self {
            // The second one stays where the first was lost.
            Self::Site => is_file("agent.db") || is_file("site.json"),
            Self::Fleet => is_file("fleet.json"),
            // Its key may come from elsewhere, and its data may be on a server.
            Self::Hub => ["hub.key", "hub.db", "hub.database"]
                .into_iter()
                .any(is_file),
            Self::ControlPlane => is_folder(".environments"),
            Self::Repository => is_file("HEAD") && is_folder("objects") && is_folder("refs"),
        }
    }
}

/// Which of `owners` the folder `path`, or the nearest one above it, is, and that folder. A folder of theirs that is mounted elsewhere, too,
/// is still theirs.
pub fn owner_of(path: &Path, owners: &[Owner]) -> Option<(Owner, PathBuf)> {
    let path = resolved(path);
    let nearest = |path: &Path| {
        path.ancestors().find_map(|above| {
            let owner = owners.iter().find(|owner| owner.is(above))?;
            Some((*owner, above.to_owned()))
        })
    };
    nearest(&path).or_else(|| {
        let there = path.ancestors().find(|above| above.exists())?;
        let mut others = mounts::other_names(there).into_iter();
        others.find_map(|other| nearest(&other))
    })
}

/// `path` without links in the part of it that is there, as the system would follow it.
pub fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            // A `/` at the end would make a folder of it.
            return real.join(rest).components().collect();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_known_by_what_lies_in_it_at_any_depth_and_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (owner, files, folders) in [
            (Owner::Site, &["agent.db"][..], &[][..]),
            (Owner::Site, &["site.json"], &[]),
            (Owner::Fleet, &["fleet.json"], &[]),
            (Owner::Hub, &["hub.key"], &[]),
            (Owner::Hub, &["hub.db"], &[]),
            (Owner::Hub, &["hub.database"], &[]),
            (Owner::ControlPlane, &[], &[".environments"]),
            (Owner::Repository, &["HEAD"], &["objects", "refs"]),
        ] {
            let _ = fs::remove_dir_all(at("place"));
            fs::create_dir(at("place")).unwrap();
            assert_eq!(owner_of(&at("place/new"), &Owner::ALL), None);
            for name in files {
                fs::write(at("place").join(name), "").unwrap();
            }
            for name in folders {
                fs::create_dir(at("place").join(name)).unwrap();
            }
            let _ = fs::remove_file(at("link"));
            std::os::unix::fs::symlink(at("place"), at("link")).unwrap();
            for path in ["place", "place/new/deep", "link/new"] {
                let found = owner_of(&at(path), &Owner::ALL);
                let place = at("place").canonicalize().unwrap();
                assert_eq!(found, Some((owner, place)), "{path}");
            }
            assert_eq!(owner_of(&at("beside"), &Owner::ALL), None);
        }
    }
}
