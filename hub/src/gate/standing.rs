//! Where one site stands in a gate's question.
//!
//! What comes in: the question, the facts, one site that has to report. What goes out: its
//! [`Standing`] and a sentence for people. The checks go from "we do not know" to "we know it is
//! well"; only a site that passes all of them confirms.

use serde::Serialize;

use super::{Facts, Question, short};
use crate::moment;
use crate::store::{DesiredBundle, Running, SiteState};

/// How far in the future a report may have been received before the hub's clock is in doubt.
const CLOCK_SLACK_MS: i64 = 5 * 60 * 1000;

/// Where a site stands. [`Standing::Confirmed`] is the only success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It runs a bundle before the one asked about.
    Behind,
    /// It runs the commit or a later one, and all is as desired.
    Confirmed,
    /// Somebody changed on site what was applied.
    Drifted,
    /// Applying or health failed.
    Failed,
    /// Reports are missing that may tell of a failure.
    Gap,
    /// It is at work on it.
    InProgress,
    /// It never reported.
    NeverReported,
    /// It reported, but not yet what it runs.
    NoState,
    /// This hub knows no bundle of the site's stream with this commit.
    NotDesired,
    /// What it runs is not what this hub knows under that number.
    OtherContent,
    /// It runs a bundle of another stream.
    OtherStream,
    /// What it runs was signed by a key that was taken away from its stream since.
    SignerRevoked,
    /// Its newest report is too old.
    Stale,
    /// It says nothing of an assignment, or runs another config version.
    Unconfirmed,
    /// Somebody allowed to go on without it.
    Waived,
}

/// One site's standing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteStanding {
    /// The site.
    pub site: String,
    /// Its cluster type.
    pub cluster_type: String,
    /// Where it stands.
    pub standing: Standing,
    /// Why, in words.
    pub message: String,
    /// The bundle that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<u64>,
    /// The first bundle that would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<u64>,
    /// When its newest report was received, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
}

impl Standing {
    /// Whether it closes the gate whatever the quorum.
    pub fn always_closes(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Drifted | Self::OtherContent | Self::OtherStream
        )
    }

    /// Whether the site is one of those that a quorum can go without.
    pub fn is_missing(self) -> bool {
        !self.always_closes() && !matches!(self, Self::Confirmed | Self::Waived)
    }

    /// The word used in reasons.
    pub fn word(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Confirmed => "confirmed",
            Self::Drifted => "drifted",
            Self::Failed => "failed",
            Self::Gap => "gap",
            Self::InProgress => "in-progress",
            Self::NeverReported => "never-reported",
            Self::NoState => "no-state",
            Self::NotDesired => "not-desired",
            Self::OtherContent => "other-content",
            Self::OtherStream => "other-stream",
            Self::SignerRevoked => "signer-revoked",
            Self::Stale => "stale",
            Self::Unconfirmed => "unconfirmed",
            Self::Waived => "waived",
        }
    }
}

impl SiteStanding {
    /// `stale: site `x` last reported 80 h ago …`
    pub fn sentence(&self) -> String {
        format!(
            "{}: site `{}` {}",
            self.standing.word(),
            self.site,
            self.message
        )
    }
}

/// Where `site`, which is in the question's environment and not revoked, stands.
pub(super) fn of(question: &Question, facts: &Facts<'_>, site: &SiteState) -> SiteStanding {
    let needed = facts
        .bundles
        .iter()
        .filter(|b| b.role == site.role && b.base_commit == question.commit && is_for(b, site))
        .filter(|b| !b.taken_back)
        .min_by_key(|bundle| bundle.number);
    let (mut standing, mut message) = assess(question, facts, site, needed);
    let holds = facts.waivers.iter().filter(|w| w.site == site.site);
    let waiver = holds
        .filter(|w| w.until_ms > question.now_ms)
        .max_by_key(|w| w.until_ms);
    if let (Some(waiver), true) = (waiver, standing != Standing::Confirmed) {
        message = format!(
            "is waived until {} by {} ({}); it would be `{}`: it {message}",
            moment::rfc3339(waiver.until_ms),
            waiver.granted_by,
            waiver.reason,
            standing.word()
        );
        standing = Standing::Waived;
    }
    SiteStanding {
        site: site.site.clone(),
        cluster_type: site.cluster_type.clone(),
        standing,
        message,
        bundle: site.running.as_ref().map(|running| running.bundle),
        needs: needed.map(|bundle| bundle.number),
        last_seen: site
            .newest
            .as_ref()
            .map(|newest| moment::rfc3339(newest.received_ms)),
    }
}

/// Whoever stole a key may have signed it, under any number and as coming from any commit.
fn taken_back(facts: &Facts<'_>, running: &Running) -> Option<(Standing, String)> {
    let known = known(facts, running)?;
    let text = format!(
        "runs bundle {}, which a key signed that was taken away from its stream since: that proves nothing; a \
         bundle of today's keys makes it good",
        running.bundle
    );
    known.taken_back.then_some((Standing::SignerRevoked, text))
}

fn assess(
    question: &Question,
    facts: &Facts<'_>,
    site: &SiteState,
    needed: Option<&DesiredBundle>,
) -> (Standing, String) {
    let now_ms = question.now_ms;
    let Some(newest) = &site.newest else {
        let since = moment::ago(site.enrolled_ms, now_ms);
        return (
            Standing::NeverReported,
            format!("never reported (enrolled {since})"),
        );
    };
    // What is known to be wrong comes before what is merely old: a failure does not expire.
    if let Some(running) = &site.running {
        if running.role != site.role {
            let other = format!(
                "runs bundle {} of stream `{}`",
                running.bundle, running.role
            );
            return (Standing::OtherStream, other);
        }
        if let Some(wrong) = wrong(running) {
            return wrong;
        }
        // It had the commit, or a later one, and left it again: no quorum goes over that.
        if let (Some(attempt), Some(needed)) = (&site.attempt, needed)
            && attempt.state == "reverted"
            && running.bundle < needed.number
            && attempt.bundle >= needed.number
        {
            let text: String = attempt.sentence().chars().take(300).collect();
            let text = format!("runs bundle {} again: {text}", running.bundle);
            return (Standing::Failed, text);
        }
        if let Some(known) = known(facts, running).filter(|known| known.index != running.index) {
            let other = format!(
                "runs a bundle {} of other content than this hub verified (expected {}, found {})",
                running.bundle, known.index, running.index
            );
            return (Standing::OtherContent, other);
        }
    }
    if let Some(revoked) = site.running.as_ref().and_then(|it| taken_back(facts, it)) {
        return revoked;
    }
    let age_ms = now_ms.saturating_sub(newest.received_ms);
    if age_ms < -CLOCK_SLACK_MS {
        let text = "last reported in the future: check the hub's clock".to_owned();
        return (Standing::Stale, text);
    }
    if age_ms > question.max_age_ms {
        let (age, most) = (moment::span(age_ms), moment::span(question.max_age_ms));
        return (
            Standing::Stale,
            format!("last reported {age} ago, at most {most} are allowed"),
        );
    }
    let Some(running) = &site.running else {
        return (
            Standing::NoState,
            "has not told yet what it runs".to_owned(),
        );
    };
    if let Some((first, last)) = site.missing.iter().find(|(_, last)| *last > running.report) {
        let text = format!(
            "has reports {first} to {last} missing, which may tell of a failure; the next export or \
             connection brings them"
        );
        return (Standing::Gap, text);
    }
    let Some(needed) = needed else {
        let text = format!(
            "is waited for, but this hub knows no bundle of cluster type `{}` with base {} for it \
             (import the bundle)",
            site.cluster_type,
            short(&question.commit)
        );
        return (Standing::NotDesired, text);
    };
    if running.bundle < needed.number {
        return (Standing::Behind, behind(site, running, needed));
    }
    if known(facts, running).is_none() {
        let text = format!(
            "runs bundle {}, which this hub does not know",
            running.bundle
        );
        return (Standing::NotDesired, text);
    }
    if running.state != "active" {
        let text = format!("is {} with bundle {}", running.state, running.bundle);
        return (Standing::InProgress, text);
    }
    if let Some(problem) = unconfirmed(facts, &site.site, running) {
        return problem;
    }
    (
        Standing::Confirmed,
        format!("runs bundle {} and all is as desired", running.bundle),
    )
}

/// What the site itself says is wrong.
fn wrong(running: &Running) -> Option<(Standing, String)> {
    let said = |message: &str| {
        let text: String = message.chars().take(200).collect();
        if text.is_empty() {
            text
        } else {
            format!(": {text}")
        }
    };
    if matches!(running.state.as_str(), "failed" | "reverted") {
        let text = format!(
            "{} with bundle {}{}",
            running.state,
            running.bundle,
            said(&running.message)
        );
        return Some((Standing::Failed, text));
    }
    let with = |status: &str| running.assignments.iter().find(|(_, a)| a.status == status);
    if let Some((name, assignment)) = with("failed") {
        let text = format!(
            "has assignment `{name}` failed{}",
            said(&assignment.message)
        );
        return Some((Standing::Failed, text));
    }
    with("drifted").map(|(name, assignment)| {
        let text = format!(
            "has assignment `{name}` drifted{}",
            said(&assignment.message)
        );
        (Standing::Drifted, text)
    })
}

fn unconfirmed(facts: &Facts<'_>, site: &str, running: &Running) -> Option<(Standing, String)> {
    if let Some((name, other)) = running
        .assignments
        .iter()
        .find(|(_, a)| a.status != "compliant")
    {
        return Some((
            Standing::InProgress,
            format!("has assignment `{name}` {}", other.status),
        ));
    }
    let wanted = facts.wanted.get(&(running.role.clone(), running.bundle))?;
    for assignment in wanted.iter().filter(|one| one.is_for(site)) {
        let (name, version) = (&assignment.assignment, assignment.config_for(site));
        match running.assignments.get(name) {
            None => return Some((Standing::Unconfirmed, format!("says nothing of `{name}`"))),
            Some(actual) if actual.config_version != version => {
                let (want, have) = (short(version), short(&actual.config_version));
                let text = format!("runs `{name}` with config {have} instead of {want}");
                return Some((Standing::Unconfirmed, text));
            }
            Some(_) => {}
        }
    }
    None
}

fn behind(site: &SiteState, running: &Running, needed: &DesiredBundle) -> String {
    let text = format!(
        "runs bundle {}, {} is needed",
        running.bundle, needed.number
    );
    match &site.attempt {
        Some(attempt) if attempt.bundle >= needed.number => {
            let told: String = attempt.sentence().chars().take(300).collect();
            format!("{text} ({told})")
        }
        _ => text,
    }
}

fn known<'a>(facts: &Facts<'a>, running: &Running) -> Option<&'a DesiredBundle> {
    facts
        .bundles
        .iter()
        .find(|b| b.role == running.role && b.number == running.bundle)
}

fn is_for(bundle: &DesiredBundle, site: &SiteState) -> bool {
    bundle.recipients.is_empty() || bundle.recipients.contains(&site.site)
}
