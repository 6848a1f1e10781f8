//! Whether a group is a user's private one: on many systems each user has a group of the same name without other members, and
//! what that user makes may be written by it.
//!
//! What comes in: `/etc/group` and `/etc/passwd`, as text, and a group's number. What goes out: whether it is that group, or root's. Any other
//! group is not, also where no member is listed: its members may come from a directory service, which is not asked.

use std::path::Path;

use outhaul_kit::durable;

/// More than any host's own list; a longer one is not read, and no group is then someone's own.
const MAX_BYTES: u64 = 1024 * 1024;
const GROUPS: &str = "/etc/group";
const USERS: &str = "/etc/passwd";

/// Whether the group `gid` of this host is the private one of the user `own`, or of root.
pub(super) fn is_private(gid: u32, own: u32) -> bool {
    let text = |path: &str| {
        let bytes = durable::read(Path::new(path), MAX_BYTES).ok()?;
        String::from_utf8(bytes).ok()
    };
    text(GROUPS)
        .zip(text(USERS))
        .is_some_and(|(groups, users)| is_own(&groups, &users, gid, own))
}

/// As above, of these texts. A line is `name:password:gid:members` of a group, `name:password:uid:gid:…` of a user.
fn is_own(groups: &str, users: &str, gid: u32, own: u32) -> bool {
    let number = |field: Option<&&str>| field.and_then(|field| field.parse::<u32>().ok());
    let users: Vec<(&str, u32, u32)> = users
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            Some((
                *fields.first()?,
                number(fields.get(2))?,
                number(fields.get(3))?,
            ))
        })
        .collect();
    let may = |uid: u32| uid == 0 || uid == own;
    let is_first = |(_, uid, primary): &&(&str, u32, u32)| may(*uid) && *primary == gid;
    let names: Vec<&str> = users
        .iter()
        .filter(is_first)
        .map(|(name, ..)| *name)
        .collect();
    let is_of_others = users
        .iter()
        .any(|(_, uid, primary)| *primary == gid && !may(*uid));
    let mut is_there = false;
    for line in groups.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if number(fields.get(2)) != Some(gid) {
            continue;
        }
        // Named as the user whose first group it is.
        if !fields.first().is_some_and(|name| names.contains(name)) {
            return false;
        }
        is_there = true;
        let members = fields.get(3).copied().unwrap_or_default();
        for member in members.split(',').filter(|name| !name.is_empty()) {
            let mut known = users.iter().filter(|(name, ..)| *name == member).peekable();
            if known.peek().is_none() || known.any(|(_, uid, _)| !may(*uid)) {
                return false;
            }
        }
    }
    is_there && !is_of_others
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str =
        "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/srv:/bin/sh\nbob:x:1001:50::/:/bin/sh\n";
    const GROUPS: &str = "root:x:0:\nann:x:1000:\nboth:x:1002:ann,bob\nonly:x:1003:ann,root\nstaff:x:50:\nghost:x:60:gone\nempty:x:61:\n";

    #[test]
    fn a_group_is_private_when_it_is_named_as_its_user_and_nobody_else_is_in_it() {
        for (gid, own, expected) in [
            (1000, 1000, true),
            // Nobody else is listed: who is in it by a directory service is not known.
            (1003, 1000, false),
            (61, 1000, false),
            // Root's group, of root and of nobody else.
            (0, 1000, true),
            // Another one's.
            (1000, 1001, false),
            (1002, 1000, false),
            // Nobody is listed, and it is the group that a user has first.
            (50, 1000, false),
            // A member that no line knows, and a group that no line knows.
            (60, 1000, false),
            (4242, 1000, false),
        ] {
            assert_eq!(is_own(GROUPS, USERS, gid, own), expected, "{gid} {own}");
        }
        assert!(!is_own(GROUPS, "", 1003, 1000), "no users are known");
        // The same number twice: both lines count.
        let twice = format!("{GROUPS}again:x:1000:bob\n");
        assert!(!is_own(&twice, USERS, 1000, 1000));
    }
}
