//! A review in lines, for the person who decides.
//!
//! What comes in: a [`Review`]. What goes out: text, and the few words that a person types to say that it
//! was read. Whatever is new, lost or lower is printed in capitals, so that it is not skipped.

use std::fmt;

use outhaul_kit::text::named;

use super::{Contents, Fate, KeyLine, Review, RoleLine, RootReview, StreamReview};
use crate::request::short;

/// Most assignments that are listed by name.
const MAX_LISTED: usize = 200;
/// Most sites that are listed for one assignment.
const MAX_SITES: usize = 20;

impl Review {
    /// SHA-256 of the bytes to sign: by it, scripts name what they sign.
    pub fn digest(&self) -> &str {
        match self {
            Self::Root(root) => &root.digest,
            Self::Stream(stream) => &stream.digest,
        }
    }

    /// What a person types to sign it: `root 3`, or `stage/edge 7`.
    pub fn name(&self) -> String {
        match self {
            Self::Root(root) => format!("root {}", root.version),
            Self::Stream(stream) => format!(
                "{}/{} {}",
                stream.environment, stream.cluster_type, stream.number
            ),
        }
    }
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(root) => write_root(root, f),
            Self::Stream(stream) => write_stream(stream, f),
        }
    }
}

fn write_root(root: &RootReview, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "fleet     {}", root.fleet)?;
    writeln!(
        f,
        "root      version {} (you have version {}, published is {})",
        root.version, root.own_version, root.published_version
    )?;
    writeln!(
        f,
        "expires   {} (yours: {})",
        root.expires, root.expires_before
    )?;
    for role in &root.roles {
        writeln!(f, "{:<9} {}", role.role, threshold(role))?;
        for key in &role.keys {
            writeln!(f, "  {}", key_line(key))?;
        }
    }
    write!(f, "digest    {}", root.digest)
}

fn threshold(role: &RoleLine) -> String {
    let before = role.threshold_before;
    let change = match role.threshold {
        now if now < before => format!(" (LOWER: {before} by your root)"),
        now if now > before => format!(" ({before} by your root)"),
        _ => String::new(),
    };
    format!(
        "{} of {} keys must sign{change}",
        role.threshold, role.count
    )
}

fn key_line(key: &KeyLine) -> String {
    let fate = match key.fate {
        Fate::Kept => "kept   ",
        Fate::Added => "ADDED  ",
        Fate::Removed => "REMOVED",
    };
    let before = match &key.called_before {
        Some(was) => format!("; before: {}", called(&was.name, &was.holder)),
        None => String::new(),
    };
    let yours = match (key.yours, key.fate) {
        (true, Fate::Removed) => "  <- YOUR KEY, it would count no more",
        (true, _) => "  <- your key",
        _ => "",
    };
    let called = called(&key.name, &key.holder);
    format!("{fate} {}  {called}{before}{yours}", short(&key.id))
}

fn called(name: &str, holder: &str) -> String {
    let name = if name.is_empty() { "no name" } else { name };
    match holder {
        "" => format!("{name}, holder not named"),
        holder => format!("{name}, held by {holder}"),
    }
}

fn write_stream(stream: &StreamReview, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let StreamReview {
        environment,
        cluster_type,
        ..
    } = stream;
    writeln!(f, "fleet     {}", stream.fleet)?;
    writeln!(
        f,
        "stream    {environment}/{cluster_type} ({})",
        stream.role
    )?;
    if stream.again {
        writeln!(
            f,
            "number    {}: the very bundle that is published, to be signed by further keys",
            stream.number
        )?;
    } else {
        writeln!(
            f,
            "number    {} (published: {})",
            stream.number, stream.number_before
        )?;
    }
    let (bytes, before) = (stream.index_bytes, &stream.index_before);
    writeln!(f, "bundle    {} ({bytes} bytes of index)", stream.index)?;
    if stream.index != *before {
        writeln!(f, "          before: {before}")?;
    }
    writeln!(f, "issued    {}", stream.issued)?;
    writeln!(
        f,
        "expires   {} (published: {})",
        stream.expires, stream.expires_before
    )?;
    writeln!(f, "signed by {} of these keys", stream.threshold)?;
    for key in &stream.keys {
        let yours = if key.yours { "  <- your key" } else { "" };
        let called = called(&key.name, &key.holder);
        writeln!(f, "  {}  {called}{yours}", short(&key.id))?;
    }
    match &stream.contents {
        Some(contents) => write_contents(contents, f)?,
        None if stream.again => {}
        None => writeln!(
            f,
            "contents  NOT IN THIS REQUEST: only the digest above states what the bundle holds"
        )?,
    }
    write!(f, "digest    {}", stream.digest)
}

fn write_contents(contents: &Contents, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sealed = if contents.sealed {
        "encrypted"
    } else {
        "not encrypted"
    };
    let count = contents.assignments.len();
    let assignments = if count == 1 {
        "assignment"
    } else {
        "assignments"
    };
    writeln!(f, "contents  {count} {assignments}, {sealed}")?;
    for (name, version) in contents.assignments.iter().take(MAX_LISTED) {
        let version = version.strip_prefix("sha256:").unwrap_or(version);
        write!(f, "  {} config {}", shown(name), short(version))?;
        match contents.only.get(name) {
            Some(sites) => writeln!(
                f,
                ", only for {}",
                named(sites.iter().map(|site| shown(site)), MAX_SITES)
            )?,
            None => writeln!(f)?,
        }
    }
    if count > MAX_LISTED {
        writeln!(
            f,
            "  and {} more; `--output json` lists all",
            count - MAX_LISTED
        )?;
    }
    for (name, commit) in &contents.sources {
        writeln!(f, "  from {} at {}", shown(name), short(commit))?;
    }
    let sites: Vec<_> = contents.sites.iter().map(|site| shown(site)).collect();
    if sites.is_empty() {
        writeln!(f, "sites     every site of the stream")?;
    } else {
        writeln!(f, "sites     only {}", sites.join(", "))?;
    }
    for order in &contents.orders {
        writeln!(f, "ORDER     {}", shown(order))?;
    }
    Ok(())
}

/// Text of an index that the co-signer has not verified yet: nothing in it reaches the terminal raw.
fn shown(text: &str) -> String {
    let plain = |c: char| {
        if c.is_control() || !c.is_ascii() {
            '?'
        } else {
            c
        }
    };
    text.chars().take(200).map(plain).collect()
}
