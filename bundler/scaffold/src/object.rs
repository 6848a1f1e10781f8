//! The texts of single objects, as a person would write them.
//!
//! What comes in: names and values. What goes out: YAML with remarks where a reader will want to know
//! more. Whatever a person typed stands in quotes, so that nothing of it is taken for syntax.

use std::fmt::Write as _;

use outhaul_gocompat::GoValue;

use outhaul_control::model::composition::Precedence;
use outhaul_plane::compose::Mode;
use outhaul_plane::compose::typing::typed;

/// Labels or values, in the order in which they were given.
pub type Pairs = [(String, String)];

/// A text in double quotes, where it needs them.
pub fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    let first = text.chars().next();
    let safe = text.chars().all(plain)
        && first.is_some_and(|c| c.is_ascii_alphabetic())
        && !text.ends_with(':')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "y" | "yes" | "n" | "no" | "on" | "off" | "true" | "false" | "null"
        );
    if safe {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

fn head(api: &str, kind: &str, name: &str) -> String {
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {}\n",
        scalar(name)
    )
}

fn pairs(out: &mut String, indent: usize, title: &str, pairs: &Pairs) {
    if pairs.is_empty() {
        return;
    }
    let space = " ".repeat(indent);
    // Writing to a text cannot fail, here and below.
    let _ = writeln!(out, "{space}{title}:");
    for (key, value) in pairs {
        let _ = writeln!(out, "{space}  {}: {}", scalar(key), scalar(value));
    }
}

const KALYPSO: &str = outhaul_control::kinds::KALYPSO;
const OUTHAUL: &str = outhaul_control::kinds::OUTHAUL;

/// A link of the chain: after which other it comes, unless it is the first.
pub fn environment(name: &str, url: &str, after: Option<&str>) -> String {
    let mut text = head(KALYPSO, "Environment", name);
    if let Some(after) = after {
        let label = outhaul_control::kinds::AFTER_LABEL;
        let _ = writeln!(text, "  labels:\n    {label}: {}", scalar(after));
    }
    text + &format!(
        "spec:\n  controlPlane:\n    repo: {}\n    branch: {name}\n    path: .\n",
        scalar(url)
    )
}

/// What an environment is based on; without a commit it follows `main`.
pub fn base_repo(url: &str, commit: Option<&str>) -> String {
    let mut text = String::from(
        "# What is promoted into this environment: the commit of `main` that it is based on.\n\
         # `outhaul promote` moves it.\n",
    );
    text += &head(KALYPSO, "BaseRepo", "main");
    let _ = writeln!(
        text,
        "spec:\n  repo: {}\n  branch: main\n  path: .",
        scalar(url)
    );
    if let Some(commit) = commit {
        let _ = writeln!(text, "  commit: \"{commit}\"");
    }
    text
}

/// A group of clusters or hosts.
pub fn cluster_type(
    name: &str,
    labels: &Pairs,
    reconciler: &str,
    namespace: &str,
    config: &str,
) -> String {
    let mut text = head(KALYPSO, "ClusterType", name);
    pairs(&mut text, 2, "labels", labels);
    let _ = write!(
        text,
        "spec:\n  reconciler: {reconciler}\n  namespaceService: {namespace}\n  configType: {config}\n"
    );
    text
}

/// Which targets go where.
pub fn policy(
    name: &str,
    workspace: Option<&str>,
    targets: &Pairs,
    cluster_types: &Pairs,
) -> String {
    let mut text = head(KALYPSO, "SchedulingPolicy", name);
    text += "spec:\n  deploymentTargetSelector:\n";
    if let Some(workspace) = workspace {
        let _ = writeln!(text, "    workspace: {}", scalar(workspace));
    }
    selector(&mut text, targets);
    text += "  clusterTypeSelector:\n";
    selector(&mut text, cluster_types);
    text
}

fn selector(text: &mut String, labels: &Pairs) {
    if labels.is_empty() {
        // All of them.
        text.push_str("    labelSelector: {}\n");
        return;
    }
    text.push_str("    labelSelector:\n");
    pairs(text, 6, "matchLabels", labels);
}

/// Which of two config containers that set one key wins.
pub fn composition_policy(name: &str, precedence: Precedence) -> String {
    let remark = match precedence {
        Precedence::Specificity => {
            "# Of two config containers that set one key the one with more labels wins: what is for one region or site\n\
             # wins over what is for all. Two that are equally specific are an error. Without this object the later name\n\
             # wins, which is Kalypso's rule.\n"
        }
        Precedence::Priority => {
            "# Of two config containers that set one key the one later in `priorities`, or with the higher label\n\
             # `outhaul.dev/priority`, wins. Two of equal priority are an error.\n"
        }
        Precedence::Name => {
            "# Of two config containers that set one key the one with the later name wins, which is Kalypso's rule.\n"
        }
    };
    format!(
        "{remark}{}spec:\n  precedence: {}\n",
        head(OUTHAUL, "CompositionPolicy", name),
        precedence.as_str()
    )
}

/// What a step of the promotion chain needs: a share of sites in percent, and the oldest report that
/// counts, in hours.
pub fn promotion_policy(
    name: &str,
    from: &str,
    to: &str,
    (percent, hours): (Option<u8>, Option<u32>),
) -> String {
    let mut text = format!(
        "# Whether `{to}` may move to a commit is decided by the sites of `{from}`.\n{}spec:\n  from: {from}\n  to: {to}\n",
        head(OUTHAUL, "PromotionPolicy", name)
    );
    if let Some(percent) = percent {
        let _ = writeln!(text, "  minConfirmedPercent: {percent}");
    }
    if let Some(hours) = hours {
        let _ = writeln!(text, "  maxReportAgeHours: {hours}");
    }
    text
}

/// That a removal is meant: the code that a refusal printed, and why.
pub fn acknowledgement(name: &str, removal: &str, reason: &str) -> String {
    format!(
        "# It lets one list of assignments go and no other; it may be deleted once they are gone.\n{}\
         spec:\n  removal: {}\n  reason: {}\n",
        head(OUTHAUL, "Acknowledgement", name),
        serde_json::Value::from(removal),
        serde_json::Value::from(reason)
    )
}

/// Images stay out of bundles: every site gets them from a registry that it reaches.
pub fn images_by_reference(name: &str) -> String {
    "# Images do not travel in bundles: every site of these cluster types has a registry with them.\n".to_owned()
        + &head(OUTHAUL, "DeliveryPolicy", name)
        + "spec:\n  clusterTypeSelector:\n    labelSelector: {}\n  images: reference\n"
}

/// Values for what the labels match.
pub fn config(name: &str, labels: &Pairs, values: &Pairs) -> String {
    let mut text = head("v1", "ConfigMap", name);
    text += "  labels:\n    platform-config: \"true\"\n";
    for (key, value) in labels {
        let _ = writeln!(text, "    {}: {}", scalar(key), scalar(value));
    }
    pairs(&mut text, 0, "data", values);
    text
}

/// Values as someone typed them into a command line: text, unless it stands in brackets as a list or
/// map of YAML's. What would be taken for one without brackets gets single quotes, in which a config's
/// value is always text.
pub fn typed_in(values: &Pairs) -> Vec<(String, String)> {
    let as_meant = |value: &String| {
        let meant = value.trim_start().starts_with(['[', '{', '\'']);
        let is_text = || typed(value, Mode::default()) == GoValue::from(value.as_str());
        match meant || is_text() {
            true => value.clone(),
            false => format!("'{value}'"),
        }
    };
    let values = values.iter();
    values
        .map(|(key, value)| (key.clone(), as_meant(value)))
        .collect()
}

/// Where a workload is described, and whose it is.
pub fn registration(name: &str, workspace: &str, url: &str, branch: &str, path: &str) -> String {
    head(KALYPSO, "WorkloadRegistration", name)
        + &format!(
            "spec:\n  workload:\n    repo: {}\n    branch: {}\n    path: {}\n  workspace: {}\n",
            scalar(url),
            scalar(branch),
            scalar(path),
            scalar(workspace)
        )
}

/// One cluster or host.
pub fn site(name: &str, cluster_type: &str, labels: &Pairs, ring: Option<&str>) -> String {
    let mut text = head(OUTHAUL, "Site", name);
    pairs(&mut text, 2, "labels", labels);
    let _ = writeln!(text, "spec:\n  clusterType: {cluster_type}");
    if let Some(ring) = ring {
        let _ = writeln!(text, "  ring: {}", scalar(ring));
    }
    text
}

/// One way to run a workload.
#[derive(Debug, Clone)]
pub struct NewTarget {
    /// Its name.
    pub name: String,
    /// Its environment.
    pub environment: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Where its manifests lie.
    pub manifests: Vec<(String, String)>,
}

/// An application and the ways to run it.
pub fn workload(name: &str, labels: &Pairs, targets: &[NewTarget]) -> String {
    let mut text = head(KALYPSO, "Workload", name);
    pairs(&mut text, 2, "labels", labels);
    text += "spec:\n  deploymentTargets:\n";
    for target in targets {
        let _ = writeln!(
            text,
            "    - name: {}\n      environment: {}",
            scalar(&target.name),
            scalar(&target.environment)
        );
        pairs(&mut text, 6, "labels", &target.labels);
        pairs(&mut text, 6, "manifests", &target.manifests);
    }
    text
}

/// A schema for the config of what the labels match; `schema` is JSON of several lines.
pub fn config_schema(name: &str, labels: &Pairs, schema: &str) -> String {
    let mut text = head(KALYPSO, "ConfigSchema", name);
    pairs(&mut text, 2, "labels", labels);
    text += "spec:\n  schema: |\n";
    for line in schema.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}
