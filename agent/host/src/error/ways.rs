//! Ways out of what this machine lacks: rights to a stick, and space.
//!
//! What comes in: the error, and what of the agent's own could go. What goes out: what to type. It looks at nothing and changes nothing.

use std::io;
use std::path::PathBuf;

use outhaul_kit::durable::FileError;
use outhaul_kit::text;

/// Whether the user who runs this lacks a right.
pub(super) fn is_denied(error: &FileError) -> bool {
    error.source.kind() == io::ErrorKind::PermissionDenied
}

/// How the user who runs this gets at a stick. Whoever came so far owns the state folder: where that is not root, root is refused.
pub(super) fn rights_help(error: &FileError, what: &str, or: &str) -> String {
    let user = rustix::process::geteuid();
    if user.is_root() {
        let path = text::quoted(&error.path);
        return format!(
            "root may not {what} it either: see how it is mounted (`findmnt -T {path}`): a network or FUSE file system may keep root out, and a \
             service sees only what its unit lets it see; as the user that may, copy it to a folder of this machine"
        );
    }
    let (user, path) = (user.as_raw(), text::path(&error.path));
    format!(
        "let user {user}, who owns the state folder, {what} `{path}`: mount the stick for that user (`mount -o uid={user}`, where it is \
         FAT), or {or}"
    )
}

/// A help without its end, "then repeat the command".
pub(super) fn without_repeat(help: &str) -> &str {
    help.trim_end_matches("; then repeat the command")
}

/// What the space is needed for.
pub(super) fn needed_for(reserve: u64) -> String {
    match reserve {
        0 => "bundle and unpacked files; no reserve is set".to_owned(),
        _ => format!("bundle, unpacked files and a reserve of {reserve} MiB"),
    }
}

/// How there is space again. A reserve that is not set cannot be lowered.
pub(super) fn space_help(folder: &str, removable: &[PathBuf], reserve: u64) -> String {
    let lower = match reserve {
        0 => "",
        _ => ", or lower `min_free_mb` in agent.toml",
    };
    format!(
        "free that much and repeat the command{lower}; {}",
        removable_help(folder, removable)
    )
}

/// What of a state folder may be removed where space is short.
fn removable_help(folder: &str, removable: &[PathBuf]) -> String {
    let names: Vec<String> = removable
        .iter()
        .map(|path| format!("`{}`", text::path(path)))
        .collect();
    match names.is_empty() {
        true => format!("nothing of what lies in `{folder}` may be removed by hand"),
        false => format!(
            "of what lies in `{folder}`, only {} may be removed by hand (`rollback` to that bundle is not possible then), and nothing else: \
             `agent.db`, `floors.json`, `site.key` and `identities` are the site itself",
            names.join(", ")
        ),
    }
}
